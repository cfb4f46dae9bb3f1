package tracing

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
)

// FromEnvironment returns the Tracer that OpenTelemetry's environment variables configure, or nil
// if they enable no traces. The only supported protocol is OTLP over HTTP. The exporter, the
// sampler and the resource read their own variables. The callback report receives an error if
// traces cannot be sent.
func FromEnvironment(ctx context.Context, version string, report func(error)) (*Tracer, error) {
	asked, err := asked(os.Getenv)
	if err != nil || !asked {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(report))
	return New(ctx, exporter, version)
}

// asked reports whether the environment variables enable traces. OTEL_TRACES_EXPORTER must be otlp,
// or it must be unset while an endpoint is set. An unsupported value is an error.
func asked(getenv func(string) string) (bool, error) {
	endpoint := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") + getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	switch exporter := getenv("OTEL_TRACES_EXPORTER"); {
	case strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true"), exporter == "none":
		return false, nil
	case exporter == "" && endpoint == "":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q, expected otlp or none", exporter)
	}
	const http = "http/protobuf"
	protocol := cmp.Or(
		getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), http,
	)
	if protocol != http {
		return false, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, expected %s", protocol, http)
	}
	return true, nil
}
