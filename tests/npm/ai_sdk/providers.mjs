// Calls models through the providers of the AI SDK, each in several ways. Prints what failed.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, generateText, stepCountIs, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { z } from "zod";

const [url] = process.argv.slice(2);
const at = (path, more) => ({ name: "host", baseURL: `${url}${path}`, apiKey: "none", ...more });
const openai = createOpenAI(at("/v1"));
const models = {
  responses: openai("fake"),
  chat: openai.chat("fake"),
  compatible: createOpenAICompatible(
    at("/v1", { supportsStructuredOutputs: true, includeUsage: true }),
  )("fake"),
  anthropic: createAnthropic(at("/v1"))("fake"),
  google: createGoogleGenerativeAI(at("/v1beta"))("fake"),
};
const clock = tool({
  inputSchema: z.object({ zone: z.string() }),
  execute: ({ zone }) => `noon in ${zone}`,
});
const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const point = Output.object({ schema: z.object({ x: z.number() }) });

const cases = {
  text: async (model) => assert.equal((await generateText({ model, prompt: "hi" })).text, "hi"),
  stream: async (model) => {
    const { text, usage } = await streamed({ model, prompt: "hi" });
    assert.equal(text, "hi");
    assert.equal(usage.inputTokens, 7);
  },
  tools: async (model) => {
    const asked = { model, prompt: "when?", tools: { clock }, stopWhen: stepCountIs(3) };
    for (const found of [await generateText(asked), await streamed(asked)])
      assert.match(found.text, /noon in CET/);
  },
  object: async (model) =>
    assert.deepEqual((await generateText({ model, prompt: "hi", output: point })).output, { x: 1 }),
  image: async (model) => {
    const content = [{ type: "text", text: "look" }, { type: "image", image: png }];
    const { text } = await generateText({ model, messages: [{ role: "user", content }] });
    assert.equal(text, "look");
  },
};

async function streamed(asked) {
  const errors = [];
  const found = streamText({ ...asked, onError: ({ error }) => errors.push(error) });
  await found.consumeStream();
  if (errors.length) throw errors[0];
  return { text: await found.text, usage: await found.usage };
}

const failed = [];
for (const [name, model] of Object.entries(models))
  for (const [what, run] of Object.entries(cases))
    await run(model).catch((error) => failed.push(`${name}, ${what}: ${error.message}`));
console.log(JSON.stringify(failed));
