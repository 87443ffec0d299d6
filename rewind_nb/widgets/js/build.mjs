// Builds every widget of src/ into ../static: `npm install && npm run build`.
// With --check nothing is written: it fails where a built file is not what its sources give.
import { build } from "esbuild";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = join(here, "..", "static");
const LIMIT = 60 * 1024; // bytes: each instance of a widget carries its own copy
const check = process.argv.includes("--check");

const sources = readdirSync(join(here, "src")).filter((name) => /\.(jsx|css)$/.test(name));
const wrong = [];

for (const source of sources) {
  const { outputFiles } = await build({
    entryPoints: [join(here, "src", source)],
    outdir: target,
    bundle: true,
    format: "esm",
    target: "es2022",
    minify: true,
    charset: "utf8",
    legalComments: "none",
    jsx: "automatic",
    jsxImportSource: "preact",
    write: false,
  });
  for (const { path, text } of outputFiles) {
    const name = basename(path);
    const outside = text.match(/https?:\/\/(?!www\.w3\.org)[^\s"'`]*/g);
    if (outside) wrong.push(`${name} refers to ${outside.join(", ")}`);
    if (Buffer.byteLength(text) > LIMIT) wrong.push(`${name} has more than ${LIMIT} bytes`);
    if (!check) writeFileSync(path, text);
    else if (readOr(path) !== text) wrong.push(`${name} is not built from these sources: npm run build`);
    console.log(`${name}\t${(Buffer.byteLength(text) / 1024).toFixed(1)} KiB`);
  }
}

function readOr(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}

if (wrong.length) {
  console.error(wrong.join("\n"));
  process.exit(1);
}
