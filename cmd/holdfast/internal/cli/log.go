package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

// logHandler passes on a runtime's warnings and errors as text for people, one line each.
type logHandler struct{ tell func(line string) error }

func newLogHandler(tell func(line string) error) slog.Handler { return logHandler{tell} }

func (logHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	line.WriteString(strings.TrimPrefix(r.Message, "holdfast: "))
	separator := ": "
	r.Attrs(func(attr slog.Attr) bool {
		fmt.Fprintf(&line, "%s%s %s", separator, attr.Key, text.Show(attr.Value.Resolve().String()))
		separator = ", "
		return true
	})
	return h.tell(line.String())
}

func (h logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h logHandler) WithGroup(string) slog.Handler { return h }
