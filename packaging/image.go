package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const (
	imageUser = 65532 // the usual id of the user "nobody" in images without a shell
	imageData = "/var/lib/lmserve"
	imagePort = "8080"
)

// writeImage writes a container image with the program, but without a shell or libraries. 'docker
// load' and 'podman load' read the file.
func (b *builder) writeImage(path string, t target, binary string, docs tree) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	packed, err := imageLayer(program, docs, b.rev.time)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed)), nil
	})
	if err != nil {
		return err
	}
	image, err := mutate.ConfigFile(empty.Image, b.imageConfig(t))
	if err != nil {
		return err
	}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: b.rev.time}, CreatedBy: "lmserve"},
	})
	if err != nil {
		return err
	}
	tag, err := name.NewTag("lmserve/lmserve:"+imageTag(b.rev.fileVersion()),
		name.WithDefaultRegistry(""))
	if err != nil {
		return err
	}
	return tarball.WriteToFile(path, tag, image)
}

// imageConfig returns the image's configuration. In the container the server listens on all
// addresses. This requires keys and TLS, unless a flag says that the network is safe.
func (b *builder) imageConfig(t target) *v1.ConfigFile {
	return &v1.ConfigFile{
		OS: t.os, Architecture: t.arch, Created: v1.Time{Time: b.rev.time},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: "65532:65532", WorkingDir: imageData,
			Entrypoint: []string{"/lmserve"}, Cmd: []string{"serve"},
			Env: []string{
				"LMSERVE_DATA_DIR=" + imageData, "LMSERVE_SERVE_LISTEN=:" + imagePort,
				"LMSERVE_CONFIG=none", "TMPDIR=" + imageData,
			},
			Volumes:      map[string]struct{}{imageData: {}},
			ExposedPorts: map[string]struct{}{imagePort + "/tcp": {}},
			StopSignal:   "SIGTERM",
			Healthcheck: &v1.HealthConfig{
				Test:     []string{"CMD", "/lmserve", "health"},
				Interval: 30 * time.Second, Timeout: 10 * time.Second, StartPeriod: time.Minute,
				Retries: 3,
			},
			Labels: map[string]string{
				"org.opencontainers.image.title":    "lmserve",
				"org.opencontainers.image.version":  b.rev.version,
				"org.opencontainers.image.revision": b.rev.hash,
				"org.opencontainers.image.source":   "https://github.com/lmserve/lmserve",
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	}
}

// imageTag converts a version to an image tag, which cannot contain a plus sign.
func imageTag(version string) string {
	return string(bytes.ReplaceAll([]byte(version), []byte("+"), []byte("-")))
}

// imageLayer returns the image's file system as an archive. It contains the program, the licenses,
// and the data folder, whose owner is the user nobody.
func imageLayer(program []byte, docs tree, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	folder := func(name string, mode, user int) error {
		return w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeDir, Name: name, Mode: int64(mode), Uid: user, Gid: user, ModTime: at,
		})
	}
	file := func(name string, mode int, content []byte) error {
		err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: int64(mode), Size: int64(len(content)),
			ModTime: at,
		})
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	}
	for _, name := range []string{"var/", "var/lib/"} {
		if err := folder(name, 0o755, 0); err != nil {
			return nil, err
		}
	}
	if err := folder(imageData[1:]+"/", 0o700, imageUser); err != nil {
		return nil, err
	}
	if err := file("lmserve", 0o755, program); err != nil {
		return nil, err
	}
	for _, path := range docs.paths() {
		if isLicense(path) {
			if err := file(path, 0o644, docs[path]); err != nil {
				return nil, err
			}
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
