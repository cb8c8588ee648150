package redisnode

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// secrets hides the client's passwords in errors. An error may contain a password at three places: in the part of a command that a server's reply
// repeats, in the part of an address before the @, and alone between quotes. At these places, passwords are always hidden.
//
// Elsewhere, a password is hidden if it stands alone, but not if it could be an ordinary word or number, or equals the user or a host. Nothing else
// is changed: a longer word or host name that contains a password stays as it is, and so do the codes at the beginning of replies.
type secrets struct {
	infos  []string // user info of addresses, with the @
	quoted []string // the passwords in every spelling, longest first
	plain  []string // the passwords that are hidden outside of quotes as well
}

// login is what a client uses to reach its servers.
type login struct {
	addrs          []string
	user, password string
}

func newSecrets(l login) secrets {
	var s secrets
	known := []string{l.user} // an error may show these
	passwords := []string{l.password}
	for _, addr := range l.addrs {
		info, server := splitAddr(addr)
		if info != "" {
			s.infos = append(s.infos, info+"@")
		}
		user, password, found := strings.Cut(info, ":")
		if !found {
			user, password = "", info
		}
		host, _, err := net.SplitHostPort(server)
		if err != nil {
			host = server
		}
		known, passwords = append(known, user, host), append(passwords, password)
	}
	for _, password := range passwords {
		for _, written := range waysToWrite(password) {
			s.quoted = append(s.quoted, written)
			if !isOrdinary(password) && !slices.Contains(known, password) {
				s.plain = append(s.plain, written)
			}
		}
	}
	longestFirst := func(a, b string) int { return len(b) - len(a) }
	slices.SortFunc(s.quoted, longestFirst)
	slices.SortFunc(s.plain, longestFirst)
	return s
}

// splitAddr splits an address into the user info and the server. The address may be a URL.
func splitAddr(addr string) (info, server string) {
	if _, rest, isURL := strings.Cut(addr, "://"); isURL {
		addr = rest
	}
	at := strings.LastIndexByte(addr, '@')
	return addr[:max(at, 0)], addr[at+1:]
}

// waysToWrite returns the spellings of a password: as it is, quoted, and in a URL.
func waysToWrite(password string) []string {
	if password == "" {
		return nil
	}
	quoted := strconv.Quote(password)
	ways := []string{password, quoted[1 : len(quoted)-1], url.QueryEscape(password), url.PathEscape(password)}
	slices.Sort(ways)
	return slices.Compact(ways)
}

const (
	shortest = 4  // shorter strings occur in any text
	longest  = 16 // ordinary words and numbers in errors are shorter
)

// isOrdinary reports whether a password might occur as a word or a number in an unrelated text.
func isOrdinary(s string) bool {
	if n := utf8.RuneCountInString(s); n < shortest || n >= longest {
		return n < shortest
	}
	noLetter := func(r rune) bool { return r != '\'' && !unicode.IsLetter(r) }
	noDigit := func(r rune) bool { return !unicode.IsDigit(r) }
	return !strings.ContainsFunc(s, noLetter) || !strings.ContainsFunc(s, noDigit)
}

const stars = "***"

var (
	// The reply to an unknown command repeats a part of the command. The end of that part cannot be recognized, so the pattern matches the rest of
	// the line.
	repeated = regexp.MustCompile(`with args beginning with:.*`)
	inURL    = regexp.MustCompile(`(\w://)[^\s/"@]+@`)
)

func (s *secrets) conceal(text string) string {
	text = repeated.ReplaceAllString(text, "with args beginning with: "+stars)
	for _, info := range s.infos {
		text = strings.ReplaceAll(text, info, stars+"@")
	}
	text = inURL.ReplaceAllString(text, "$1"+stars+"@")
	for _, written := range s.quoted {
		for _, quote := range []string{`"`, "'", "`"} {
			text = strings.ReplaceAll(text, quote+written+quote, quote+stars+quote)
		}
	}
	for _, written := range s.plain {
		text = replaceAlone(text, written)
	}
	return text
}

// replaceAlone hides a password, except within a longer word.
func replaceAlone(text, password string) string {
	var b strings.Builder
	for {
		at := strings.Index(text, password)
		if at < 0 {
			break
		}
		end := at + len(password)
		if isPart(text[:at], password, text[end:]) {
			b.WriteString(text[:end])
		} else {
			b.WriteString(text[:at] + stars)
		}
		text = text[end:]
	}
	return b.String() + text
}

// isPart reports whether, in the text before + word + after, the word is only a part of a longer word, or of a name with dots or dashes.
func isPart(before, word, after string) bool {
	first, _ := utf8.DecodeRuneInString(word)
	last, _ := utf8.DecodeLastRuneInString(word)
	left, _ := utf8.DecodeLastRuneInString(before)
	right, size := utf8.DecodeRuneInString(after)
	if right == '.' { // within a name, or at the end of a sentence
		right, _ = utf8.DecodeRuneInString(after[size:])
	}
	return isInWord(first) && (isInWord(left) || left == '.' || left == '-') || isInWord(last) && (isInWord(right) || right == '-')
}

func isInWord(r rune) bool {
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// concealError hides the passwords in the text of an error, and in the texts of all errors that this error wraps. If the error contains no
// passwords, concealError returns the error unchanged. An error of package net is replaced by a copy of the same type, so that errors.As finds it.
// Any other error is replaced by a `concealed`.
func (s *secrets) concealError(err error) error {
	if err == nil || s.isClean(err) {
		return err
	}
	if c := s.concealNet(err); c != nil && s.isClean(c) {
		return c
	}
	c := concealed{text: s.conceal(err.Error())}
	several, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // concealErrors looks at each error of the chain
	switch cause := errors.Unwrap(err); {
	case ok:
		c.Errors = s.concealErrors(several.Unwrap())
	case cause != nil:
		c.Errors = s.concealErrors([]error{cause})
	case IsReply(err):
		return concealedReply{c}
	}
	return c
}

func (s *secrets) isClean(err error) bool { text := err.Error(); return s.conceal(text) == text }

// concealNet returns a copy of an error of package net, without passwords, or nil for other errors.
func (s *secrets) concealNet(err error) error {
	switch e := err.(type) { //nolint:errorlint // as above
	case *net.OpError:
		c := *e
		c.Err = s.concealError(e.Err)
		return &c
	case *net.DNSError:
		c := *e
		c.Err, c.Name, c.Server = s.conceal(e.Err), s.conceal(e.Name), s.conceal(e.Server)
		return &c
	case *net.AddrError:
		c := *e
		c.Err, c.Addr = s.conceal(e.Err), s.conceal(e.Addr)
		return &c
	}
	return nil
}

func (s *secrets) concealErrors(errs []error) []error {
	causes := make([]error, len(errs))
	for i, err := range errs {
		causes[i] = s.concealError(err)
	}
	return causes
}

// concealed replaces an error whose text contained a secret.
type concealed struct {
	text   string
	Errors []error
}

func (e concealed) Error() string   { return e.text }
func (e concealed) Unwrap() []error { return e.Errors }

// concealedReply replaces a reply of the server.
type concealedReply struct{ concealed }

func (concealedReply) RedisError() {}
