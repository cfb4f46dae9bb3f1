package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/sessionlog"
)

// reportDamage returns a function that logs what is wrong with the data folder.
func reportDamage(log *zap.Logger) func(error) {
	return func(err error) { log.Error("data folder", zap.Error(err)) }
}

// scrubbing is how fast a server looks for damage; tests cannot wait so long.
var scrubbing = sessionlog.ScrubOptions{ReadsPerSecond: sessionlog.ScrubReads}

// startScrub looks through the data folder for damage until the context ends or the store does.
func startScrub(
	ctx context.Context, folder *sessionlog.Folder, told *telemetry, log *zap.Logger,
) {
	report, o := reportDamage(log), scrubbing
	o.Report = func(d *sessionlog.CorruptError) {
		report(d)
		if told != nil {
			told.ScrubFinding()
		}
	}
	go folder.ScrubForever(ctx, o)
}
