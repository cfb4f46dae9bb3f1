// Copies the licenses of the packages in the page to licenses/, because a release is built without
// npm. Packages that only build the page are omitted.
import { cpSync, readFileSync, rmSync } from "node:fs";

const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
rmSync("licenses", { recursive: true, force: true });
for (const [folder, { dev }] of Object.entries(packages)) {
  if (folder === "" || dev) continue; // "" is the page itself
  cpSync(`${folder}/LICENSE`, `licenses/${folder.replace("node_modules/", "")}/LICENSE`);
}
