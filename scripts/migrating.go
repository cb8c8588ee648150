package scripts

import (
	"fmt"
	"strings"
)

// Other libraries write a lock as a string. The usual scripts refuse such a key. While a fleet migrates from one of these libraries, an acquire
// must treat such a key as a lock that another owner holds. Variants of the scripts do this. They need the right to call TYPE, which the
// usual scripts do not need, so they are separate scripts.

// ofString is the holder in the reply of an acquire that found a string.
const ofString = "string"

// forString is the beginning of a script that must know whether the key holds a string.
const forString = "local strange = redis.call('type', KEYS[1]).ok == 'string'\n"

// toMigrate adds to a script the variant that treats a string as a busy lock. If the key holds a string, the variant returns
// {TTL, holder}. All kinds without a queue know this form of a busy reply.
func (s *Script) toMigrate() *Script {
	s.Migrating = load(s.Name+"_migrating", forString+
		fmt.Sprintf("if strange then return {redis.call('pttl', KEYS[1]), '%s'} end\n", ofString)+s.written)
	return s
}

// toMigrateBy is like toMigrate, but makes the variant by replacing texts in the script. The arguments are pairs of an old text and its replacement.
func (s *Script) toMigrateBy(replacements ...string) *Script {
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(s.written, replacements[i]) {
			panic("scripts: " + s.Name + " does not contain " + replacements[i])
		}
	}
	s.Migrating = load(s.Name+"_migrating", forString+strings.NewReplacer(replacements...).Replace(s.written))
	return s
}
