package main

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
)

// scrubbing is how fast a server looks for damage; tests cannot wait so long.
var scrubbing = folder.ScrubOptions{FilesPerSecond: 4, Rest: time.Hour}

// startScrub looks through the data folder for damage until the context ends or the store does.
func startScrub(
	ctx context.Context, data *folder.Folder, told *telemetry, log *zap.Logger,
) {
	report, o := logged(log, "data folder"), scrubbing
	o.Report = func(d *storage.CorruptError) {
		report(d)
		if told != nil {
			told.ScrubFinding()
		}
	}
	go data.ScrubForever(ctx, o)
}
