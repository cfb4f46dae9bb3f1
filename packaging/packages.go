package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the .deb format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the .rpm format
)

func (b *builder) writePackages(base string, t target, binary string, docs tree) error {
	for _, form := range []string{"deb", "rpm"} {
		packager, err := nfpm.Get(form)
		if err != nil {
			return err
		}
		info := nfpm.WithDefaults(b.packageInfo(t))
		var placed tree
		if form == "deb" {
			placed, err = b.debFiles(docs, info)
		} else {
			placed, err = rpmFiles(docs)
		}
		if err != nil {
			return err
		}
		dir := filepath.Join(b.work, form+"-"+t.arch)
		if info.Contents, err = b.packageContents(dir, binary, placed); err != nil {
			return err
		}
		if form == "deb" {
			info.License = "" // a .deb has the license in its file "copyright"
		}
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

const (
	maintainer = "The lmserve authors <maintainers@lmserve.invalid>"
	summary    = "Language-model server whose model learns the stream it serves"
)

func (b *builder) packageInfo(t target) *nfpm.Info {
	script := func(name string) string { return b.linuxFile(name + ".sh") }
	return &nfpm.Info{
		Name: "lmserve", Arch: t.arch, Platform: t.os, Version: b.rev.version, Release: "1",
		Section: "net", Priority: "optional", License: "Apache-2.0", Maintainer: maintainer,
		Homepage: "https://github.com/lmserve/lmserve",
		Description: summary + "\n" +
			"lmserve hosts a Transformer-XL with fast weights: each session keeps fast\n" +
			"weights of its own, rewritten after each chunk of text that it has scored.",
		MTime: b.rev.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Umask: 0o022,
			Scripts: nfpm.Scripts{
				PostInstall: script("postinstall"), PreRemove: script("preremove"),
				PostRemove: script("postremove"),
			},
			Deb: nfpm.Deb{Compression: "gzip"},
			RPM: nfpm.RPM{BuildHost: "localhost", Compression: "gzip", Summary: summary},
		},
	}
}

func (b *builder) linuxFile(name string) string {
	return filepath.Join(b.source, "packaging", "linux", name)
}

// packageContents returns the files of a package, each with its path in the package. It first
// writes the documents to the folder dir.
func (b *builder) packageContents(dir, binary string, docs tree) (files.Contents, error) {
	all := files.Contents{
		b.content(binary, "/usr/bin/lmserve", 0o755),
		b.content(b.linuxFile("lmserve.service"), "/usr/lib/systemd/system/lmserve.service", 0o644),
		b.content(b.linuxFile("lmserve-watch.service"),
			"/usr/lib/systemd/system/lmserve-watch.service", 0o644),
		b.content(b.linuxFile("sysusers.conf"), "/usr/lib/sysusers.d/lmserve.conf", 0o644),
		b.content(b.wordsPath(), "/usr/share/lmserve/"+wordsFile, 0o644),
		b.content(b.linuxFile("config.yaml"), "/etc/lmserve/config.yaml", 0o644),
	}
	all[len(all)-1].Type = files.TypeConfigNoReplace
	for to, text := range docs {
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
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode,
			MTime: b.rev.time},
	}
}
