package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"path/filepath"
	"time"

	"github.com/goreleaser/nfpm/v2"
)

const packagedDocs = "/usr/share/doc/lmserve/"

// debFiles returns the documents by their paths in a .deb, as Debian's policy requires. Licenses
// that every Debian system has are referenced, not repeated.
func (b *builder) debFiles(docs tree, info *nfpm.Info) (tree, error) {
	placed, err := installed(docs)
	if err != nil {
		return nil, err
	}
	delete(placed, packagedDocs+"LICENSE")
	delete(placed, packagedDocs+"CHANGELOG.md")
	if placed[packagedDocs+"changelog.gz"], err = gzipOf(docs["CHANGELOG.md"]); err != nil {
		return nil, err
	}
	placed[packagedDocs+"changelog.Debian.gz"], err = gzipOf(debChangelog(info))
	if err != nil {
		return nil, err
	}
	if err := placed.read(packagedDocs+"copyright", b.linuxFile("copyright")); err != nil {
		return nil, err
	}
	err = placed.read("/usr/share/lintian/overrides/lmserve", b.linuxFile("lintian-overrides"))
	return placed, err
}

// debChangelog returns the changelog that Debian's tools read. It has only the package's version
// and time, and refers to the full changelog.
func debChangelog(info *nfpm.Info) []byte {
	version := info.Version
	if info.Prerelease != "" {
		version += "~" + info.Prerelease
	}
	if info.VersionMetadata != "" {
		version += "+" + info.VersionMetadata
	}
	return fmt.Appendf(nil, "%s (%s-%s) unstable; urgency=medium\n\n"+
		"  * The changes are in %schangelog.gz.\n\n -- %s  %s\n",
		info.Name, version, info.Release, packagedDocs, maintainer,
		info.MTime.Format(time.RFC1123Z))
}

func rpmFiles(docs tree) (tree, error) {
	placed, err := installed(docs)
	if err != nil {
		return nil, err
	}
	placed["/usr/share/licenses/lmserve/LICENSE"] = docs["LICENSE"]
	delete(placed, packagedDocs+"LICENSE")
	return placed, nil
}

// installed returns an archive's documents by the paths where .deb and .rpm packages install them.
func installed(docs tree) (tree, error) {
	placed := tree{}
	for path, text := range docs {
		folder, name := filepath.Split(path)
		switch {
		case folder == manFolder:
			packed, err := gzipOf(text)
			if err != nil {
				return nil, err
			}
			placed["/usr/share/man/man1/"+name+".gz"] = packed
		case path == completionFolder+completions["bash"]:
			placed["/usr/share/bash-completion/completions/lmserve"] = text
		case path == completionFolder+completions["zsh"]:
			placed["/usr/share/zsh/site-functions/"+name] = text
		case path == completionFolder+completions["fish"]:
			placed["/usr/share/fish/vendor_completions.d/"+name] = text
		case folder == completionFolder: // Completions for other shells are left out.
		default:
			placed[packagedDocs+path] = text
		}
	}
	return placed, nil
}

func gzipOf(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}
