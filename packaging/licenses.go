package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licenseclassifier/v2/assets"
)

// accepted are the licences of what may be in a release. They ask for nothing but that their text
// goes with the binary, or, as MPL-2.0, are of files that are used as they are.
var accepted = []string{
	"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC-BY-4.0", "FTL", "ISC", "MIT", "MPL-2.0",
	"OFL-1.1", "Unlicense",
}

// chosen are the licences, and the files with their texts, of modules that leave a choice, or that
// also name those of code in other languages which no Go program has.
var chosen = map[string]struct{ license, file string }{
	"github.com/apache/arrow/go/arrow": {"Apache-2.0", "LICENSE.txt"},
	"github.com/golang/freetype":       {"FTL", "licenses/ftl.txt"},
}

// fileNames are those of files that say under which terms a module may be used.
var fileNames = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|patents|ofl)([.-].*)?$`)

// dependency is a module of Go or a package of npm whose code is in a binary.
type dependency struct {
	origin        string // "golang" or "npm", as URLs of packages begin
	path, version string
	licenses      []string // by their SPDX names
	texts         tree     // the files that say so, by their paths in the module
}

// dependencies are all that a binary is made of, but for lmserve itself: Go's library first, then
// the modules by their paths, then what the web page has. One without an accepted licence is an
// error.
func (b *builder) dependencies(ctx context.Context, t target, binary string) ([]dependency, error) {
	classify, err := newClassifier()
	if err != nil {
		return nil, err
	}
	modules, err := b.modules(ctx, t, binary, classify)
	if err != nil {
		return nil, err
	}
	page, err := b.pagePackages(classify)
	return append(modules, page...), err
}

// modules are Go's library and the modules that the binary names.
func (b *builder) modules(
	ctx context.Context, t target, binary string, classify func([]byte) []string,
) ([]dependency, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	root, err := b.goTool(ctx, t, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	folders, err := b.moduleFolders(ctx, t)
	if err != nil {
		return nil, err
	}
	folders["std"] = strings.TrimSpace(string(root))
	all := []dependency{{
		origin: "golang", path: "std", version: strings.TrimPrefix(info.GoVersion, "go"),
	}}
	for _, dep := range info.Deps {
		all = append(all, dependency{origin: "golang", path: dep.Path, version: dep.Version})
	}
	var errs []error
	for i := range all {
		errs = append(errs, all[i].readLicenses(folders[all[i].path], classify))
	}
	return all, errors.Join(errs...)
}

// moduleFolders are the folders of the modules that the product may need.
func (b *builder) moduleFolders(ctx context.Context, t target) (map[string]string, error) {
	out, err := b.goTool(ctx, t, "mod", "download", "-json")
	if err != nil {
		return nil, err
	}
	folders := map[string]string{}
	for list := json.NewDecoder(strings.NewReader(string(out))); ; {
		var m struct{ Path, Dir string }
		if err := list.Decode(&m); errors.Is(err, io.EOF) {
			return folders, nil
		} else if err != nil {
			return nil, err
		}
		folders[m.Path] = m.Dir
	}
}

// readLicenses finds the licences of a module in its folder.
func (d *dependency) readLicenses(dir string, classify func([]byte) []string) error {
	if dir == "" {
		return fmt.Errorf("%s %s: its source is not among the modules", d.path, d.version)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	d.texts = tree{}
	for _, entry := range entries {
		if entry.IsDir() || !fileNames.MatchString(entry.Name()) {
			continue
		}
		if err := d.texts.read(entry.Name(), filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
		d.licenses = append(d.licenses, classify(d.texts[entry.Name()])...)
	}
	if choice, ok := chosen[d.path]; ok {
		d.licenses = []string{choice.license}
		if err := d.texts.read(choice.file, filepath.Join(dir, choice.file)); err != nil {
			return err
		}
	}
	slices.Sort(d.licenses)
	d.licenses = slices.Compact(d.licenses)
	if len(d.licenses) == 0 {
		return fmt.Errorf("%s %s: no licence is known of its files %q", d.path, d.version,
			d.texts.paths())
	}
	others := slices.DeleteFunc(slices.Clone(d.licenses), func(name string) bool {
		return slices.Contains(accepted, name)
	})
	if len(others) > 0 {
		return fmt.Errorf("%s %s: found the licences %q, expected none but %q", d.path, d.version,
			others, accepted)
	}
	return nil
}

// newClassifier returns a function that names the licences that a text has.
func newClassifier() (func(text []byte) []string, error) {
	c, err := assets.DefaultClassifier()
	if err != nil {
		return nil, err
	}
	return func(text []byte) (names []string) {
		for _, m := range c.Match(text).Matches {
			if m.MatchType == "License" {
				names = append(names, m.Name)
			}
		}
		return names
	}, nil
}

// licenseFiles are the texts as they are in archives.
func licenseFiles(all []dependency) tree {
	files := tree{}
	for _, d := range all {
		for name, text := range d.texts {
			files[licenseFolder+path.Join(d.path, name)] = text
		}
	}
	return files
}

// licenseFolder has the licences of modules.
const licenseFolder = "licenses/"

// modelNotice tells which texts the embedded model was trained on, and under which terms they are.
const modelNotice = "weights/README.md"

// isLicense reports whether a document says under which terms something may be used.
func isLicense(path string) bool {
	return path == "LICENSE" || path == modelNotice || strings.HasPrefix(path, licenseFolder)
}
