//go:build clouds

package postgres

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// The test has no credentials. So an error of a cloud's client, or no error, shows that openObjects
// chose that client. Without a client the error would be ErrInvalid.
func TestBucketsOfOtherClouds(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "none")
	t.Setenv("AZURE_STORAGE_ACCOUNT", "")
	for _, at := range []string{"gs://bucket", "azblob://bucket"} {
		o, err := openObjects(context.Background(), at, false)
		require.NotErrorIs(t, err, storage.ErrInvalid)
		if err == nil { // some clients need credentials only when they are used
			require.NoError(t, o.close())
		}
	}
	_, err := openObjects(context.Background(), "ftp://bucket", false)
	require.ErrorContains(t, err, "expected s3://bucket, gs://bucket, azblob://bucket or "+
		"file:///folder")
}
