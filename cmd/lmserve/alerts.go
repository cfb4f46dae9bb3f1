package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/lmserve/lmserve/internal/serving/alert"
)

// alertsPatience is how long a command tries to deliver pending alerts before it exits.
const alertsPatience = 5 * time.Second

type alertFlags struct{ receivers []string }

func (f *alertFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.receivers, "alerts", nil,
		"receiver of alerts when incidents open and close, in JSON: a URL, "+
			"alertmanager:URL,\n"+
			"otlp:URL or exec:COMMAND; may be repeated (default: none)")
}

func (f *alertFlags) given() bool { return len(f.receivers) > 0 }

// start starts the notifier, which sends alerts to the receivers. Parameter name names the file in
// the data folder for pending alerts; "" keeps the alerts in memory.
func (f *alertFlags) start(data *dataFlags, name string, o alert.Options) (*alert.Notifier, error) {
	for _, what := range f.receivers {
		r, err := alert.ParseReceiver(what)
		if err != nil {
			return nil, usagef("--alerts: %w", err)
		}
		o.Receivers = append(o.Receivers, r)
	}
	if name != "" && data.dir != noDataDir {
		dir, err := data.folder()
		if err != nil {
			return nil, err
		}
		o.File = filepath.Join(dir, "alerts", name+".json")
	}
	return alert.Start(o)
}

// lostAlerts returns an error with the number of lost alerts, or nil if no alert was lost. A lost
// alert was neither delivered nor stored in a file.
func lostAlerts(lost int) error {
	if lost == 0 {
		return nil
	}
	return fmt.Errorf("alerts: %d alerts were not delivered and are lost", lost)
}
