package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

// commands returns all commands in the order of the overview. Each call creates new ones, because a command holds the values of its flags.
func commands() []*command {
	return []*command{
		execCommand(), leadCommand(), lsCommand(), topCommand(), showCommand(), freeCommand(), checkCommand(), aclCommand(), pageCommand(),
		completionCommand(), helpCommand(),
	}
}

const urls = `The server is given by --redis or $HOLDFAST_REDIS:
  redis://user:password@host:6379/0        a server; the number is that of the database
  rediss://host:6379                       the same with TLS
  unix:///run/redis.sock                   a socket
  redis://host1:6379,host2:6379            a cluster; with one host: ?cluster=true
  redis://host1:26379,host2:26379?master=m Sentinels that watch the master m
Parameters: ca, cert, key (files), server_name, skip_verify=true for TLS; sentinel_user, sentinel_password; dial_timeout, read_timeout.
A password in $HOLDFAST_REDIS does not appear in the list of processes; a password in --redis does.`

// overview is the help without a command.
func (a *app) overview(to io.Writer, code int) int {
	var b strings.Builder
	b.WriteString("holdfast runs commands under distributed locks in Redis, and shows who holds them.\n\nUsage: holdfast COMMAND [flags] [arguments]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-11s %s\n", c.name, c.does)
	}
	b.WriteString("\n\"holdfast help COMMAND\" describes a command, with examples.\n\n" + urls + "\n")
	if _, err := io.WriteString(to, b.String()); err != nil && code == exitOK {
		return a.unwritten(err)
	}
	return code
}

func helpCommand() *command {
	return &command{
		name: "help", args: "[COMMAND]", does: "describe a command",
		about:    "Describes COMMAND, or lists all commands.",
		examples: "  holdfast help exec",
		run: func(a *app, in input) int {
			if len(in.args) == 0 {
				return a.overview(a.stdout, exitOK)
			}
			for _, c := range commands() {
				if c.name == in.args[0] {
					return a.help(c)
				}
			}
			return a.usage("help", fmt.Errorf("unknown command %s", text.Show(in.args[0])))
		},
	}
}

func (a *app) help(c *command) int {
	width := columnsOf(a.stdout, 100)
	var b strings.Builder
	fmt.Fprintf(&b, "holdfast %s - %s\n\nUsage: holdfast %s %s\n", c.name, c.does, c.name, c.args)
	for _, paragraph := range strings.Split(c.about, "\n\n") {
		b.WriteString("\n" + wrap(paragraph, width, "") + "\n")
	}
	b.WriteString("\nFlags:\n")
	for _, d := range flagsOf(c) {
		fmt.Fprintf(&b, "  %s\n%s\n", d.form(), wrap(d.about, width, "        "))
	}
	if c.exits != "" {
		b.WriteString("\nExit code:\n" + c.exits + "\n")
	}
	if c.examples != "" {
		b.WriteString("\nExamples:\n" + c.examples + "\n")
	}
	return a.write(b.String())
}

// form returns a flag as the user writes it, such as "-q, --quiet".
func (d *flagDoc) form() string {
	var forms []string
	for _, name := range d.names {
		dashes := "--"
		if len(name) == 1 {
			dashes = "-"
		}
		forms = append(forms, dashes+name)
	}
	form := strings.Join(forms, ", ")
	if d.arg != "" {
		form += " " + d.arg
	}
	return form
}

// wrap breaks a paragraph into lines.
func wrap(paragraph string, width int, indent string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(paragraph) {
		if line != "" && len(indent)+len(line)+1+len(word) > width {
			lines, line = append(lines, indent+line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, indent+line), "\n")
}

// columnsOf returns the width of a terminal, but no more than `most`. If f is not a terminal, it returns `most`.
func columnsOf(f *os.File, most int) int {
	if columns, _, ok := sizeOf(f); ok {
		return min(columns, most)
	}
	return most
}
