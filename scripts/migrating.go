package scripts

import (
	"fmt"
	"strings"
)

// Other libraries write a lock as a string. While a fleet migrates from one of them, an acquire treats such a key as a lock that another
// owner holds. For that, its script needs the right to call TYPE. The usual scripts refuse such a key and do not need this right, so the
// scripts for a migration are variants of them.

// ofString is the holder in the reply of an acquire that found a string.
const ofString = "string"

// forString is the beginning of a script that must know whether the key holds a string.
const forString = "local strange = redis.call('type', KEYS[1]).ok == 'string'\n"

// toMigrate adds to a script the variant that treats a string as a busy lock. The reply is the same for all kinds without a queue.
func (s *Script) toMigrate() *Script {
	s.Migrating = load(s.Name+"_migrating", forString+
		fmt.Sprintf("if strange then return {redis.call('pttl', KEYS[1]), '%s'} end\n", ofString)+s.written)
	return s
}

// toMigrateBy is toMigrate for a script in which some text has to be replaced. The arguments are pairs: in the script, the second text of a pair
// replaces the first one.
func (s *Script) toMigrateBy(replacements ...string) *Script {
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(s.written, replacements[i]) {
			panic("scripts: " + s.Name + " does not contain " + replacements[i])
		}
	}
	s.Migrating = load(s.Name+"_migrating", forString+strings.NewReplacer(replacements...).Replace(s.written))
	return s
}
