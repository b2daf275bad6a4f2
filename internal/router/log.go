package router

import (
	"io"
	"log/slog"
	"time"
)

// timestampLayout is the layout of @timestamp that go-plugin parses; a line with another layout loses its level
// (go-plugin log_entry.go).
const timestampLayout = "2006-01-02T15:04:05.000000Z07:00"

// NewLogger returns a logger that writes each record of at least level as one line of hclog JSON. The controller reads
// a plugin's stderr line by line and keeps level and attributes of this format only; it logs all other lines at debug
// level.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: hclogNames}))
}

// hclogNames converts slog's own attributes to the names and formats of hclog JSON.
func hclogNames(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return attr
	}
	switch attr.Key {
	case slog.TimeKey:
		if attr.Value.Kind() == slog.KindTime {
			return slog.String("@timestamp", attr.Value.Time().Format(timestampLayout))
		}
	case slog.LevelKey:
		if level, ok := attr.Value.Any().(slog.Level); ok {
			return slog.String("@level", levelName(level))
		}
	case slog.MessageKey:
		return slog.Attr{Key: "@message", Value: attr.Value}
	}
	if attr.Value.Kind() == slog.KindDuration {
		return slog.String(attr.Key, attr.Value.Duration().Round(time.Microsecond).String())
	}
	return attr
}

// levelName returns hclog's name of a level. A level between two names gets the lower one.
func levelName(level slog.Level) string {
	switch {
	case level < slog.LevelDebug:
		return "trace"
	case level < slog.LevelInfo:
		return "debug"
	case level < slog.LevelWarn:
		return "info"
	case level < slog.LevelError:
		return "warn"
	default:
		return "error"
	}
}
