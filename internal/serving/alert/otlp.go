package alert

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	logsservice "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
)

// collector is the URL of a receiver of OTLP logs over HTTP.
type collector string

func (c collector) send(ctx context.Context, alerts []Alert) error {
	request := &logsservice.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{
		Resource: &resource.Resource{
			Attributes: attributes(map[string]string{"service.name": "lmserve"}),
		},
		ScopeLogs: []*logs.ScopeLogs{{Scope: &common.InstrumentationScope{Name: "lmserve/alerts"}}},
	}}}
	for i := range alerts {
		record, err := alerts[i].record(time.Now())
		if err != nil {
			return backoff.Permanent(err)
		}
		scope := request.ResourceLogs[0].ScopeLogs[0]
		scope.LogRecords = append(scope.LogRecords, record)
	}
	body, err := proto.Marshal(request)
	if err != nil {
		return backoff.Permanent(err)
	}
	return post(ctx, string(c), "application/x-protobuf", body, "")
}

// record returns an alert as a log record. Its body is the summary; the whole alert is an
// attribute, as JSON.
func (a *Alert) record(now time.Time) (*logs.LogRecord, error) {
	whole, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	at, severity := a.Starts, logs.SeverityNumber_SEVERITY_NUMBER_WARN
	if a.Ends != nil {
		at, severity = *a.Ends, logs.SeverityNumber_SEVERITY_NUMBER_INFO
	}
	return &logs.LogRecord{
		TimeUnixNano: uint64(at.UnixNano()), ObservedTimeUnixNano: uint64(now.UnixNano()),
		SeverityNumber: severity, EventName: "lmserve." + string(a.Kind), Body: text(a.Summary),
		Attributes: attributes(map[string]string{
			"lmserve.alert.id": a.ID, "lmserve.alert.status": string(a.Status),
			"lmserve.alert": string(whole), "lmserve.incident": a.IncidentID,
			"lmserve.session.id": a.Session.ID, "lmserve.session.name": a.Session.Name,
			"lmserve.source": a.Source,
		}),
	}, nil
}

func attributes(of map[string]string) (all []*common.KeyValue) {
	for key, value := range of {
		if value != "" {
			all = append(all, &common.KeyValue{Key: key, Value: text(value)})
		}
	}
	return all
}

// text returns s as a value in valid UTF-8, because protobuf refuses other strings. A file's name
// may be invalid UTF-8.
func text(s string) *common.AnyValue {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}
