package tracing

import (
	"cmp"
	"fmt"
	"strings"
)

// Protocol is how spans are exported.
type Protocol string

// Protocols, by their names in OpenTelemetry's variables.
const (
	// Off: no spans are made.
	Off  Protocol = ""
	GRPC Protocol = "grpc"
	HTTP Protocol = "http/protobuf"
)

// Exporter reads OpenTelemetry's standard variables for whether and how spans are
// exported. Spans are made when OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, or OTEL_TRACES_EXPORTER is otlp, and
// OTEL_SDK_DISABLED is not true. The error names the variable, its value and what
// it may be.
func Exporter(getenv func(string) string) (Protocol, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return Off, nil
	}
	switch exporter := getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return Off, nil
	case "otlp":
	case "":
		if getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
			return Off, nil
		}
	default:
		return Off, fmt.Errorf("OTEL_TRACES_EXPORTER %q: want otlp or none", exporter)
	}
	variable := "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	if getenv(variable) == "" {
		variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
	}
	switch protocol := cmp.Or(Protocol(getenv(variable)), HTTP); protocol {
	case GRPC, HTTP:
		return protocol, nil
	default:
		return Off, fmt.Errorf("%s %q: want %s or %s", variable, protocol, GRPC, HTTP)
	}
}
