package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/weights"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Print the version, the arithmetic in use and the default model",
		Example:           "  lmserve version",
		Args:              cobra.NoArgs,
		PersistentPreRunE: unconfigured,
		RunE: func(c *cobra.Command, _ []string) error {
			out := c.OutOrStdout()
			fmt.Fprintf(out, "lmserve   %s\n", buildVersion())
			fmt.Fprintf(out, "go        %s %s/%s\n", runtime.Version(), runtime.GOOS,
				runtime.GOARCH)
			fmt.Fprintf(out, "numerics  %s\n", kernel.Arithmetic{}.Numerics())
			fmt.Fprintf(out, "model     %s (%d weights)\n", model.DefaultID(),
				weights.DefaultWeights)
			fmt.Fprintf(out, "sha256    %s\n", weights.DefaultHash)
			return nil
		},
	}
}

// version is the version of the release. The linker sets it when a release is built.
var version string

// buildVersion returns the version of the release, or else the module's version from Go's build
// information.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	return info.Main.Version
}
