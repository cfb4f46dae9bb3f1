package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const pageFolder = "server/page"

// pagePackages returns the npm packages in the web page, sorted by name. `make page` writes their
// licenses to the folder that this function reads.
func (b *builder) pagePackages(classify func([]byte) []string) ([]dependency, error) {
	text, err := os.ReadFile(filepath.Join(b.source, pageFolder, "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version string
			Dev     bool // whether the package is needed only to build the page
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, err
	}
	delete(lock.Packages, "") // The entry "" is the page itself.
	var all []dependency
	for _, folder := range slices.Sorted(maps.Keys(lock.Packages)) {
		found := lock.Packages[folder]
		if found.Dev {
			continue
		}
		name := strings.TrimPrefix(folder, "node_modules/")
		d := dependency{origin: "npm", path: name, version: found.Version}
		texts := filepath.Join(b.source, pageFolder, "licenses", name)
		if err := d.readLicenses(texts, classify); err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}
