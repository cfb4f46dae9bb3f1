package program

import (
	"bytes"
	"context"
	"io"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
	"github.com/lmserve/lmserve/weights"
)

// Export is the content of an exported session: stored metadata, text and state.
type Export struct {
	storage.Session
	Text  []byte
	State *weights.File
}

// ReadExport reads all of an exported session.
func ReadExport(export []byte) (x Export, err error) {
	ctx := context.Background()
	store, err := folder.OpenExport(io.NewSectionReader(bytes.NewReader(export), 0,
		int64(len(export))))
	if err != nil {
		return x, err
	}
	all, err := store.List(ctx, "", 1)
	if err != nil {
		return x, err
	}
	if x.Session = all[0]; x.Err != nil {
		return x, x.Err
	}
	err = store.Read(ctx, x.ID, x.Start, func(_ int64, r storage.Record) error {
		x.Text = append(x.Text, r.Text...)
		return nil
	})
	if err != nil {
		return x, err
	}
	err = store.ReadSnapshot(ctx, x.ID, x.End, func(r io.Reader) (err error) {
		x.State, err = weights.Read(r, weights.Limits{})
		return err
	})
	return x, err
}
