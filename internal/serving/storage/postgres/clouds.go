//go:build clouds

package postgres

import (
	_ "gocloud.dev/blob/azureblob" // takes azblob:// URLs
	_ "gocloud.dev/blob/gcsblob"   // takes gs:// URLs
)

func init() { openers["gs"], openers["azblob"] = openCloud, openCloud }
