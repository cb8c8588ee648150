package scripts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/scripts"
)

// A check can try every command that a script calls, without leaving anything behind.
func TestNeeds_CommandsCanBeTried(t *testing.T) {
	on(t, func(b bed) {
		for _, kind := range scripts.Everything() {
			needs := kind.Needs(&scripts.Site{Publish: "PUBLISH", Tokens: 1}, b.name, func() string { return "u:1" })
			assert.NotEmpty(b, needs.Keys, kind.Name)
			assert.NotEmpty(b, needs.Channels, kind.Name)
			var words [][]any
			for _, command := range needs.Commands {
				if command == "rpush" {
					continue // rpush leaves a key behind, which the check deletes
				}
				harmless := scripts.Harmless(command, b.name, needs.Channels[0])
				require.NotNil(b, harmless, "%s of %s", command, kind.Name)
				name, _, _ := strings.Cut(command, "|") // without a subcommand
				assert.Equal(b, name, harmless[0])
				words = append(words, harmless)
			}
			call := scripts.CheckCommands(words)
			require.NoError(b, b.ScriptLoad(b.Context(), call.Script.Source).Err())
			replies, err := b.Do(b.Context(), call.Command...).Slice()
			require.NoError(b, err)
			require.Len(b, replies, len(words))
			for i, reply := range replies {
				text := strings.ToLower(reply.(string))
				assert.NotContains(b, text, "unknown", "%v", words[i])
				assert.False(b, strings.Contains(text, "wrong number of arg") && words[i][0] != "hset", "%v: %s", words[i], text)
			}
			assert.Zero(b, b.Exists(b.Context(), b.name).Val(), kind.Name)
		}
	})
}
