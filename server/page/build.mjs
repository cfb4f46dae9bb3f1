// Builds dist/ from src/: one script, one style sheet, and the document that includes them. The
// same sources give the same bytes on every machine, so that a test can compare them.
import { createHash } from "node:crypto";
import { copyFileSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

await build({
  entryPoints: { page: "src/main.tsx" },
  outdir: "dist",
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome123", "firefox120", "safari17.5"],
  legalComments: "eof",
  banner: {
    js: "/* The script of lmserve's page. `make page` makes it of server/page/src. */",
    css: "/* The style of lmserve's page. `make page` makes it of server/page/src. */",
  },
  logLevel: "warning",
});
copyFileSync("src/index.html", "dist/index.html");

// The checksum of all sources of dist/; page_test.go computes it, too.
const files = readdirSync("src", { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => `${entry.parentPath}/${entry.name}`.replaceAll("\\", "/"));
const sum = createHash("sha256");
for (const name of ["build.mjs", "package-lock.json", ...files].sort()) {
  sum.update(`${name} ${createHash("sha256").update(readFileSync(name)).digest("hex")}\n`);
}
writeFileSync("dist/sources.sha256", sum.digest("hex") + "\n");
