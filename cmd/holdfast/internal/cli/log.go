package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

// logHandler writes a runtime's warnings and errors as text for people, one line each.
type logHandler struct{ to io.Writer }

func newLogHandler(to io.Writer) slog.Handler { return logHandler{to} }

func (logHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	line.WriteString("holdfast: " + strings.TrimPrefix(r.Message, "holdfast: "))
	separator := ": "
	r.Attrs(func(attr slog.Attr) bool {
		fmt.Fprintf(&line, "%s%s %s", separator, attr.Key, text.Show(attr.Value.Resolve().String()))
		separator = ", "
		return true
	})
	_, err := io.WriteString(h.to, line.String()+"\n")
	return err
}

func (h logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h logHandler) WithGroup(string) slog.Handler { return h }
