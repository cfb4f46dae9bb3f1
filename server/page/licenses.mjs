// Copies the licences of the packages that the page is made of into licenses/, for the archives and
// packages of a release: a release is made without npm. Packages that only build the page are left
// out.
import { cpSync, readFileSync, rmSync } from "node:fs";

const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
rmSync("licenses", { recursive: true, force: true });
for (const [folder, { dev }] of Object.entries(packages)) {
  if (folder === "" || dev) continue; // "" is the page itself
  cpSync(`${folder}/LICENSE`, `licenses/${folder.replace("node_modules/", "")}/LICENSE`);
}
