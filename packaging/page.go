package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pageFolder has the sources of the web page, which the binary holds.
const pageFolder = "server/page"

// pagePackages are the packages of npm that the page is made of, by their names. `make page` puts
// their licences where they are read here.
func (b *builder) pagePackages(classify func([]byte) []string) ([]dependency, error) {
	text, err := os.ReadFile(filepath.Join(b.source, pageFolder, "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version string
			Dev     bool // whether it only builds the page
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, err
	}
	delete(lock.Packages, "") // the page itself
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
