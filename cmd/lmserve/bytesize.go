package main

import (
	"fmt"
	"strconv"
	"strings"
)

// byteSize is the value of a flag for a number of bytes, such as 800M. The optional unit K, M or G
// means 1024, 1024^2 or 1024^3 bytes. byteSize replaces libraries for sizes, which also accept
// 1.5G, "1 G" or 1T, or treat K as 1000. They print rounded values.
type byteSize int64

const byteUnits = "KMG"

func (b *byteSize) String() string {
	n, unit := int64(*b), ""
	for i := 0; i < len(byteUnits) && n > 0 && n%1024 == 0; i++ {
		n, unit = n/1024, byteUnits[i:i+1]
	}
	return strconv.FormatInt(n, 10) + unit
}

func sizeOf(bytes int64) string { return new(byteSize(bytes)).String() }

func (b *byteSize) Set(text string) error {
	number, shift := text, 0
	if n := len(text); n > 0 {
		if i := strings.IndexByte(byteUnits, strings.ToUpper(text[n-1:])[0]); i >= 0 {
			number, shift = text[:n-1], 10*(i+1)
		}
	}
	v, err := strconv.ParseInt(number, 10, 64)
	if err != nil || v < 1 || v > 1<<50>>shift {
		return fmt.Errorf(
			"found %q, expected a number of bytes up to 2^50, such as 4096, 64K, 800M or 4G", text)
	}
	*b = byteSize(v << shift)
	return nil
}

func (b *byteSize) Type() string { return "bytes" }
