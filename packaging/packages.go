package main

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the form .deb
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // the form .rpm
)

// packagedDocs is where packages have their documents.
const packagedDocs = "/usr/share/doc/lmserve/"

// writePackages writes the .deb and the .rpm of a target.
func (b *builder) writePackages(base string, t target, binary string, docs tree) error {
	dir := filepath.Join(b.work, "package-"+t.arch)
	contents, err := b.packageContents(dir, binary, docs)
	if err != nil {
		return err
	}
	for _, form := range []string{"deb", "rpm"} {
		packager, err := nfpm.Get(form)
		if err != nil {
			return err
		}
		info := nfpm.WithDefaults(b.packageInfo(t, contents))
		if err := nfpm.PrepareForPackager(info, form); err != nil {
			return err
		}
		var out bytes.Buffer
		if err := packager.Package(info, &out); err != nil {
			return err
		}
		if err := os.WriteFile(base+"."+form, out.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// packageInfo is what a package says of itself.
func (b *builder) packageInfo(t target, contents files.Contents) *nfpm.Info {
	script := func(name string) string { return b.linuxFile(name + ".sh") }
	return &nfpm.Info{
		Name: "lmserve", Arch: t.arch, Platform: t.os, Version: b.rev.version, Release: "1",
		Section: "net", Priority: "optional", License: "Apache-2.0",
		Maintainer: "The lmserve authors <maintainers@lmserve.invalid>",
		Homepage:   "https://github.com/lmserve/lmserve",
		Description: "Language-model server whose model learns the stream it serves\n" +
			"lmserve hosts a Transformer-XL with fast weights: each session keeps fast weights of\n" +
			"its own, rewritten after each chunk of text that it has scored.",
		MTime: b.rev.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: contents, Umask: 0o022,
			Scripts: nfpm.Scripts{
				PostInstall: script("postinstall"), PreRemove: script("preremove"),
				PostRemove: script("postremove"),
			},
			Deb: nfpm.Deb{Compression: "gzip"},
			RPM: nfpm.RPM{
				BuildHost: "localhost", Compression: "gzip",
				Summary: "Language-model server whose model learns the stream it serves",
			},
		},
	}
}

// linuxFile is the path of a file that packages for Linux have.
func (b *builder) linuxFile(name string) string {
	return filepath.Join(b.source, "packaging", "linux", name)
}

// packageContents puts what a package has into a folder, and says where each file goes.
func (b *builder) packageContents(dir, binary string, docs tree) (files.Contents, error) {
	all := files.Contents{
		b.content(binary, "/usr/bin/lmserve", 0o755),
		b.content(b.linuxFile("lmserve.service"), "/usr/lib/systemd/system/lmserve.service", 0o644),
		b.content(b.linuxFile("sysusers.conf"), "/usr/lib/sysusers.d/lmserve.conf", 0o644),
		b.content(b.linuxFile("config.yaml"), "/etc/lmserve/config.yaml", 0o644),
	}
	all[len(all)-1].Type = files.TypeConfigNoReplace
	for path, text := range docs {
		to, text, err := packagedAt(path, text)
		if err != nil {
			return nil, err
		}
		if to == "" {
			continue
		}
		from := filepath.Join(dir, filepath.FromSlash(to))
		if err := os.MkdirAll(filepath.Dir(from), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(from, text, 0o644); err != nil {
			return nil, err
		}
		all = append(all, b.content(from, to, 0o644))
	}
	return all, nil
}

func (b *builder) content(from, to string, mode fs.FileMode) *files.Content {
	return &files.Content{
		Source: from, Destination: to,
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: b.rev.time},
	}
}

// packagedAt says where a package has a document, and in what form; "" if it has it not.
func packagedAt(path string, text []byte) (string, []byte, error) {
	folder, name := filepath.Split(path)
	switch {
	case folder == manFolder:
		packed, err := gzipOf(text)
		return "/usr/share/man/man1/" + name + ".gz", packed, err
	case path == completionFolder+completions["bash"]:
		return "/usr/share/bash-completion/completions/lmserve", text, nil
	case path == completionFolder+completions["zsh"]:
		return "/usr/share/zsh/site-functions/" + name, text, nil
	case path == completionFolder+completions["fish"]:
		return "/usr/share/fish/vendor_completions.d/" + name, text, nil
	case strings.HasPrefix(path, completionFolder):
		return "", nil, nil
	case path == "LICENSE":
		return packagedDocs + "copyright", text, nil
	}
	return packagedDocs + path, text, nil
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
