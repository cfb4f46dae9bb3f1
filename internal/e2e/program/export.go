package program

import (
	"bytes"
	"context"
	"io"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
	"github.com/lmserve/lmserve/weights"
)

// ReadExport reads an export to its end: what the store would tell of the session, and its state.
func ReadExport(export []byte) (found storage.Session, state *weights.File, err error) {
	ctx := context.Background()
	store, err := folder.OpenExport(io.NewSectionReader(bytes.NewReader(export), 0, int64(len(export))))
	if err != nil {
		return found, nil, err
	}
	all, err := store.List(ctx, "", 1)
	if err != nil {
		return found, nil, err
	}
	found = all[0]
	if found.Err != nil {
		return found, nil, found.Err
	}
	err = store.Read(ctx, found.ID, found.Start, func(int64, storage.Record) error { return nil })
	if err != nil {
		return found, nil, err
	}
	err = store.ReadSnapshot(ctx, found.ID, found.End, func(r io.Reader) (err error) {
		state, err = weights.Read(r, weights.Limits{})
		return err
	})
	return found, state, err
}
