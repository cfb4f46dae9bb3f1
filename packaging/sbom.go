package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// writeSBOM writes a list of a binary's components in the format CycloneDX. The components are the
// embedded model, and every Go module and npm package, with its version and licenses.
func (b *builder) writeSBOM(path string, t target, binary string, all []dependency) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(program)
	self := b.component(t, hex.EncodeToString(sum[:]))
	weights, err := b.embeddedModel()
	if err != nil {
		return err
	}
	components := []cdx.Component{weights}
	for _, m := range all {
		components = append(components, m.component())
	}
	var needs []string
	for _, c := range components {
		needs = append(needs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = uuid.NewHash(sha256.New(), uuid.NameSpaceOID, sum[:], 8).URN()
	bom.Metadata = &cdx.Metadata{
		Timestamp: b.rev.time.Format("2006-01-02T15:04:05Z"), Component: &self,
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: self.BOMRef, Dependencies: &needs}}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := cdx.NewBOMEncoder(out,
		cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return out.Close()
}

func (b *builder) component(t target, sum string) cdx.Component {
	const name = "github.com/lmserve/lmserve"
	at := purl("golang", name, b.rev.version)
	return cdx.Component{
		BOMRef: at, Type: cdx.ComponentTypeApplication, Name: name,
		Version: b.rev.version, PackageURL: at, Licenses: spdx("Apache-2.0"),
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
		Properties: &[]cdx.Property{
			{Name: "lmserve:system", Value: t.os}, {Name: "lmserve:processor", Value: t.arch},
			{Name: "lmserve:commit", Value: b.rev.hash},
		},
	}
}

func (d *dependency) component() cdx.Component {
	at := purl(d.origin, d.path, d.version)
	return cdx.Component{
		BOMRef: at, Type: cdx.ComponentTypeLibrary, Name: d.path, Version: d.version,
		PackageURL: at, Licenses: spdx(d.licenses...), Scope: cdx.ScopeRequired,
	}
}

func (b *builder) embeddedModel() (cdx.Component, error) {
	const name = "default.safetensors.zst"
	content, err := os.ReadFile(filepath.Join(b.source, "weights", name))
	if err != nil {
		return cdx.Component{}, err
	}
	return cdx.Component{
		BOMRef: name, Type: cdx.ComponentTypeMachineLearningModel, Name: name,
		Version: b.rev.version,
		Hashes: &[]cdx.Hash{{
			Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(content)),
		}},
	}, nil
}

func spdx(names ...string) *cdx.Licenses {
	var all cdx.Licenses
	for _, name := range names {
		all = append(all, cdx.LicenseChoice{License: &cdx.License{ID: name}})
	}
	return &all
}

// purl returns a package URL. It escapes an @ in the name, because @ separates the version.
func purl(origin, name, version string) string {
	name = strings.ReplaceAll(name, "@", "%40")
	return "pkg:" + origin + "/" + name + "@" + url.QueryEscape(version)
}
