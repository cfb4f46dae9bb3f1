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

// accepted are the licenses allowed in a release. Most require only that their text accompanies the
// binary. MPL-2.0 has further terms for files under this license, but lmserve does not change these
// files.
var accepted = []string{
	"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC-BY-4.0", "FTL", "ISC", "MIT", "MPL-2.0",
	"OFL-1.1", "Unlicense",
}

// chosen selects one license, and its file, for modules with several licenses. Some modules offer a
// choice. Others list the licenses of code in other languages, which a Go program does not contain.
var chosen = map[string]struct{ license, file string }{
	"github.com/apache/arrow/go/arrow": {"Apache-2.0", "LICENSE.txt"},
	"github.com/golang/freetype":       {"FTL", "licenses/ftl.txt"},
}

// fileNames matches the names of files with a module's license terms.
var fileNames = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|patents|ofl)([.-].*)?$`)

type dependency struct {
	origin        string // "golang" or "npm", the type in a package URL
	path, version string
	licenses      []string // SPDX names
	texts         tree
}

// dependencies returns everything in a binary except lmserve itself: Go's library, the modules by
// path, and the web page's packages. A missing or unaccepted license is an error.
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

func (d *dependency) readLicenses(dir string, classify func([]byte) []string) error {
	if dir == "" {
		return fmt.Errorf("%s %s: its source code is not among the downloaded "+
			"modules", d.path, d.version)
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
		return fmt.Errorf("%s %s: found no known license in its files %q", d.path, d.version,
			d.texts.paths())
	}
	others := slices.DeleteFunc(slices.Clone(d.licenses), func(name string) bool {
		return slices.Contains(accepted, name)
	})
	if len(others) > 0 {
		return fmt.Errorf("%s %s: found the licenses %q, expected only licenses among "+
			"%q", d.path, d.version,
			others, accepted)
	}
	return nil
}

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

func licenseFiles(all []dependency) tree {
	files := tree{}
	for _, d := range all {
		for name, text := range d.texts {
			files[licenseFolder+path.Join(d.path, name)] = text
		}
	}
	return files
}

const licenseFolder = "licenses/"

// modelNotice lists the training texts of the embedded model and their terms.
const modelNotice = "weights/README.md"

func isLicense(path string) bool {
	return path == "LICENSE" || path == modelNotice || strings.HasPrefix(path, licenseFolder)
}
