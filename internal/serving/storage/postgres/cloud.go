//go:build s3 || clouds

package postgres

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/s3blob" // opens s3:// URLs
	"gocloud.dev/gcerrors"
)

func init() { openers["s3"] = openCloud }

type cloud struct{ bucket *blob.Bucket }

func openCloud(ctx context.Context, at string) (bucket, error) {
	b, err := blob.OpenBucket(ctx, at)
	return cloud{b}, err
}

func (c cloud) write(ctx context.Context, name string, fill func(io.Writer) error) error {
	ctx, cancel := context.WithCancel(ctx) // canceling aborts the write
	defer cancel()
	w, err := c.bucket.NewWriter(ctx, name, &blob.WriterOptions{
		ContentType: "application/zstd", IfNotExist: true,
	})
	if err != nil {
		return err
	}
	if err := fill(w); err != nil {
		cancel()
		_ = w.Close()
		return err
	}
	return located(w.Close())
}

func (c cloud) size(ctx context.Context, name string) (int64, error) {
	about, err := c.bucket.Attributes(ctx, name)
	if err != nil {
		return 0, located(err)
	}
	return about.Size, nil
}

func (c cloud) read(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := c.bucket.NewReader(ctx, name, nil)
	if err != nil {
		return nil, located(err)
	}
	return r, nil
}

func (c cloud) remove(ctx context.Context, name string) error {
	return located(c.bucket.Delete(ctx, name))
}

func (c cloud) close() error { return c.bucket.Close() }

// located converts the bucket's error for a missing object to fs.ErrNotExist, and its error for an
// object that already exists to fs.ErrExist.
func located(err error) error {
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case gcerrors.FailedPrecondition:
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return err
}
