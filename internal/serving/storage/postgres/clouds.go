//go:build clouds

package postgres

import (
	_ "gocloud.dev/blob/azureblob" // opens azblob:// URLs
	_ "gocloud.dev/blob/gcsblob"   // opens gs:// URLs
)

func init() { openers["gs"], openers["azblob"] = openCloud, openCloud }
