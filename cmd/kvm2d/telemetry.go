package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// startTelemetry exports traces over OTLP/HTTP when the usual environment
// variables name an endpoint, and records none otherwise. What is not yet sent
// is flushed by a clean-up. It dials nothing by itself.
func startTelemetry(ctx context.Context, life *lifecycle, b build) (trace.TracerProvider, error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return noop.NewTracerProvider(), nil
	}
	otel.SetLogger(logr.FromSlogHandler(life.log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		life.log.Warn("traces are not exported", "error", err)
	}))
	res, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "kvm2d"), attribute.String("service.version", b.Version)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("describe this process for traces: %w", err)
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("set up the export of traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))
	life.onStop("traces", hurried(provider.Shutdown))
	life.log.Info("exporting traces", slog.String("endpoint_from", "OTEL_EXPORTER_OTLP_ENDPOINT"))
	return provider, nil
}
