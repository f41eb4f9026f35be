package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// NewLogger returns a logger that writes records of at least the level (debug,
// info, warn or error) to w, in the format text or json.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var options slog.HandlerOptions
	switch level {
	case "debug":
		options.Level = slog.LevelDebug
	case "info":
		options.Level = slog.LevelInfo
	case "warn":
		options.Level = slog.LevelWarn
	case "error":
		options.Level = slog.LevelError
	default:
		return nil, fmt.Errorf("log level %q: want debug, info, warn or error", level)
	}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, &options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &options)), nil
	default:
		return nil, fmt.Errorf("log format %q: want text or json", format)
	}
}
