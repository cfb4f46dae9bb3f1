module github.com/lmserve/lmserve/internal/arithmetic/kernel/_openblas

go 1.26.0

require github.com/lmserve/lmserve v0.0.0

require golang.org/x/sys v0.50.0 // indirect

replace github.com/lmserve/lmserve => ../../../..
