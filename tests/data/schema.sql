-- Version 3 of the schema, on PostgreSQL.
-- A change requires a new version and a step in genai_host/store/migrations.py.

CREATE TABLE blob_pieces (
    digest TEXT NOT NULL,
    number INTEGER NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (digest, number)
);
CREATE TABLE blob_uses (
    digest TEXT NOT NULL,
    owner TEXT NOT NULL,
    conversation TEXT NOT NULL,
    PRIMARY KEY (digest, owner, conversation),
    FOREIGN KEY(digest) REFERENCES blobs (digest)
);
CREATE INDEX blob_uses_by_conversation ON blob_uses (conversation);
CREATE TABLE blobs (
    digest TEXT NOT NULL,
    size BIGINT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (digest)
);
CREATE TABLE conversations (
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    name TEXT,
    forked_from TEXT,
    copied INTEGER DEFAULT '0' NOT NULL,
    entries INTEGER DEFAULT '0' NOT NULL,
    updated DOUBLE PRECISION NOT NULL,
    title TEXT DEFAULT '' NOT NULL,
    feature TEXT DEFAULT '' NOT NULL,
    models TEXT DEFAULT '{}' NOT NULL,
    turns INTEGER DEFAULT '0' NOT NULL,
    status TEXT DEFAULT 'idle' NOT NULL,
    writer BIGINT,
    PRIMARY KEY (id)
);
CREATE INDEX conversations_by_owner ON conversations (owner, updated);
CREATE TABLE documents (
    number BIGSERIAL NOT NULL,
    owner TEXT NOT NULL,
    conversation TEXT,
    collection TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (number),
    FOREIGN KEY(conversation) REFERENCES conversations (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX documents_by_id ON documents (owner, collection, id);
CREATE INDEX ix_documents_conversation ON documents (conversation);
CREATE TABLE entries (
    conversation TEXT NOT NULL,
    number INTEGER NOT NULL,
    turn INTEGER,
    kind TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    writer BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (conversation, number),
    FOREIGN KEY(conversation) REFERENCES conversations (id) ON DELETE CASCADE
);
CREATE TABLE messages (
    id BIGSERIAL NOT NULL,
    conversation TEXT NOT NULL,
    turn INTEGER,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    words TEXT DEFAULT '' NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(conversation) REFERENCES conversations (id) ON DELETE CASCADE
);
CREATE INDEX ix_messages_conversation ON messages (conversation);
CREATE TABLE meta (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE spent (
    name TEXT NOT NULL,
    period TEXT NOT NULL,
    dollars DOUBLE PRECISION NOT NULL,
    tokens BIGINT NOT NULL,
    unknown BIGINT NOT NULL,
    PRIMARY KEY (name, period)
);
CREATE TABLE tries (
    conversation TEXT NOT NULL,
    turn INTEGER NOT NULL,
    path TEXT NOT NULL,
    number INTEGER NOT NULL,
    model TEXT NOT NULL,
    provider TEXT NOT NULL,
    dialect TEXT NOT NULL,
    started DOUBLE PRECISION NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    code TEXT,
    http_status INTEGER,
    input_tokens BIGINT,
    output_tokens BIGINT,
    cached_tokens BIGINT,
    reasoning_tokens BIGINT,
    cost DOUBLE PRECISION,
    PRIMARY KEY (conversation, turn, path, number),
    FOREIGN KEY(conversation) REFERENCES conversations (id) ON DELETE CASCADE
);
CREATE TABLE usage (
    day TEXT NOT NULL,
    owner TEXT NOT NULL,
    feature TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    code TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    reasoning_tokens BIGINT NOT NULL,
    dollars DOUBLE PRECISION NOT NULL,
    unknown BIGINT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    slowest DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (day, owner, feature, provider, model, code, bucket)
);
