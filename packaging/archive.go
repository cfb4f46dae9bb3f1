package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// wordsFile is the file name of the model of words. lmserve looks for this file in the folder of
// its binary.
const wordsFile = "words.safetensors.zst"

func (b *builder) wordsPath() string {
	return filepath.Join(b.source, "packaging", "models", wordsFile)
}

// writeArchive writes one folder with the binary, the model of words and the documents. The archive
// is a zip file for Windows, and a tar.gz file for other systems.
func (b *builder) writeArchive(base string, t target, binary string, docs tree) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	files := docs.with(tree{t.program(): program})
	if err := files.read(wordsFile, b.wordsPath()); err != nil {
		return err
	}
	var packed []byte
	folder, extension := filepath.Base(base)+"/", ".tar.gz"
	if t.os == "windows" {
		extension = ".zip"
		packed, err = zipOf(folder, files, t.program(), b.rev.time)
	} else {
		packed, err = tarGzOf(folder, files, t.program(), b.rev.time)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(base+extension, packed, 0o644)
}

func modeOf(path, program string) fs.FileMode {
	if path == program {
		return 0o755
	}
	return 0o644
}

func tarGzOf(folder string, files tree, program string, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	packer, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(packer)
	for _, path := range files.paths() {
		if err := w.WriteHeader(&tar.Header{
			Name: folder + path, Size: int64(len(files[path])), Mode: int64(modeOf(path, program)),
			ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatPAX,
		}); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[path]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err = packer.Close()
	return out.Bytes(), err
}

func zipOf(folder string, files tree, program string, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, path := range files.paths() {
		header := &zip.FileHeader{Name: folder + path, Method: zip.Deflate, Modified: at}
		header.SetMode(modeOf(path, program))
		f, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(files[path]); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
