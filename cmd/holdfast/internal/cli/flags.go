package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

// flags are the flags of one command. A flag may have a short and a long name, written as in "n try".
type flags struct {
	set  *flag.FlagSet
	docs []flagDoc
}

// flagDoc describes a flag for help and completion.
type flagDoc struct {
	names []string
	arg   string // "" for a flag without a value
	about string
	words []string // the values that completion offers
}

func newFlags(name string) *flags {
	f := &flags{set: flag.NewFlagSet(name, flag.ContinueOnError)}
	f.set.SetOutput(io.Discard)
	return f
}

// parse reads flags up to the first argument that is not a flag. Package flag names an unknown flag without the dashes that the user wrote, so parse
// takes the name from args.
func (f *flags) parse(args []string) error {
	err := f.set.Parse(args)
	if err == nil || !strings.HasPrefix(err.Error(), "flag provided but not defined: ") {
		return err
	}
	word, _, _ := strings.Cut(args[len(args)-f.set.NArg()-1], "=")
	return fmt.Errorf("unknown flag %s%s", text.Show(word), f.apart(word))
}

// apart returns a hint if the word combines several short flags, as -nq does; package flag rejects such words. For any other word it returns "".
func (f *flags) apart(word string) string {
	hint := ": write"
	for _, letter := range word[1:] {
		if f.set.Lookup(string(letter)) == nil {
			return ""
		}
		hint += " -" + string(letter)
	}
	return hint
}

func (f *flags) doc(names, arg, about string, words ...string) []string {
	d := flagDoc{strings.Fields(names), arg, about, words}
	f.docs = append(f.docs, d)
	return d.names
}

func (f *flags) text(to *string, names, arg, about string) {
	for _, name := range f.doc(names, arg, about) {
		f.set.StringVar(to, name, *to, "")
	}
}

func (f *flags) flag(to *bool, names, about string) {
	for _, name := range f.doc(names, "", about) {
		f.set.BoolVar(to, name, *to, "")
	}
}

func (f *flags) duration(to *time.Duration, names, about string) {
	for _, name := range f.doc(names, "D", about) {
		f.set.Func(name, "", func(s string) (err error) {
			if *to, err = time.ParseDuration(s); err != nil {
				err = fmt.Errorf("write a duration as 500ms, 30s, 5m or 2h")
			} else if *to < 0 {
				err = fmt.Errorf("a duration must not be negative")
			}
			return err
		})
	}
}

func (f *flags) number(to *int, least, most int, names, about string) {
	for _, name := range f.doc(names, "N", about) {
		f.set.Func(name, "", func(s string) error {
			n, err := strconv.Atoi(s)
			if err != nil || n < least || n > most {
				return fmt.Errorf("it must be a number from %d to %d", least, most)
			}
			*to = n
			return nil
		})
	}
}

// kinds are the kinds of locks, with their names on the command line.
var kinds = []struct {
	word string
	kind holdfast.Kind
}{
	{"lock", holdfast.KindLock}, {"fair", holdfast.KindFair}, {"fenced", holdfast.KindFenced}, {"spin", holdfast.KindSpin},
	{"read", holdfast.KindRead}, {"write", holdfast.KindWrite}, {"permit-semaphore", holdfast.KindPermitSemaphore},
	{"semaphore", holdfast.KindSemaphore}, {"latch", holdfast.KindLatch},
}

func kindWords() (words []string) {
	for _, k := range kinds {
		words = append(words, k.word)
	}
	return words
}

// kindOf reads the name of a kind.
func kindOf(word string) (holdfast.Kind, error) {
	for _, k := range kinds {
		if k.word == word {
			return k.kind, nil
		}
	}
	return "", fmt.Errorf("unknown kind %q: it is one of %s", word, strings.Join(kindWords(), ", "))
}

func (f *flags) kind(to *holdfast.Kind, about string, words ...string) {
	f.doc("kind", "KIND", about+": "+strings.Join(words, ", "), words...)
	f.set.Func("kind", "", func(s string) (err error) {
		if !slices.Contains(words, s) {
			return fmt.Errorf("it is one of %s", strings.Join(words, ", "))
		}
		*to, err = kindOf(s)
		return err
	})
}

// isSeparator reports whether a character separates the items of a list.
func isSeparator(r rune) bool { return r == ',' || r == ' ' }

func (f *flags) kindList(to *[]holdfast.Kind) {
	f.doc("kinds", "KINDS", "kinds of locks, separated by commas: "+strings.Join(kindWords(), ", ")+"; default all", kindWords()...)
	f.set.Func("kinds", "", func(s string) error {
		for _, word := range strings.FieldsFunc(s, isSeparator) {
			kind, err := kindOf(word)
			if err != nil {
				return err
			}
			*to = append(*to, kind)
		}
		if len(*to) == 0 { // it would mean all kinds
			return errors.New("it names no kind")
		}
		return nil
	})
}
