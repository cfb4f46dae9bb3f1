//go:build s3 || clouds

package postgres

import (
	"context"
	"errors"
	"io"
)

func (c cloud) names(ctx context.Context) (names []string, err error) {
	for all := c.bucket.List(nil); ; {
		o, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		names = append(names, o.Key)
	}
}
