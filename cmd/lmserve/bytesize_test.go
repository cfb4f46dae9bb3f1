package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestByteSizes(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "1023": 1023, "3k": 3 << 10, "800M": 800 << 20,
		"4G": 4 << 30} {
		var b byteSize
		require.NoError(t, b.Set(text))
		require.Equal(t, want, int64(b))
		var again byteSize
		require.NoError(t, again.Set(b.String()))
		require.Equal(t, b, again)
	}
	for _, text := range []string{"", "0", "-1", "M", "1T", "1.5G", "1 G", "2097152G",
		"9223372036854775807"} {
		require.ErrorContains(t, new(byteSize).Set(text), "expected a number of bytes", text)
	}
}
