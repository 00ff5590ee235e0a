// Unpacks the browser into the folder for temporary files, and says where it is.

import chromium from "@sparticuz/chromium";

console.log(await chromium.executablePath());
