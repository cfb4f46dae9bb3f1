package answer

import (
	"context"
	"fmt"
	"maps"
	"net/http"

	"github.com/lmserve/lmserve/server/contract"
)

// File is an answer that a client saves as a file. The answer begins with the file's first byte. So
// a request that fails earlier gets its own HTTP status.
type File struct {
	ctx   context.Context
	w     http.ResponseWriter
	name  string
	extra http.Header
	begun bool
}

// NewFile returns a File that answers on w with a tar file of the given name. Writes fail once ctx
// has ended.
func NewFile(ctx context.Context, w http.ResponseWriter, name string) *File {
	return &File{ctx: ctx, w: w, name: name, extra: http.Header{}}
}

// IsPart marks the file as incomplete: it renames the file, and sets headers that say why. It must
// be called before the first Write.
func (f *File) IsPart(name string, headers map[string]string) {
	f.name = name
	for key, value := range headers {
		f.extra.Set(key, value)
	}
}

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) {
	if f.ctx.Err() != nil {
		return 0, context.Cause(f.ctx)
	}
	if !f.begun {
		f.begun = true
		h := f.w.Header()
		maps.Copy(h, f.extra)
		h.Set("Content-Type", contract.MediaTar)
		h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", f.name))
		h.Set("Cache-Control", "no-store")
		f.w.WriteHeader(http.StatusOK)
	}
	return f.w.Write(p)
}
