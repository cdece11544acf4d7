package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed log.lua
var logText string

//go:embed apply.lua
var applyText string

//go:embed history.lua
var historyText string

//go:embed rewrite.lua
var rewriteText string

//go:embed restore.lua
var restoreText string

// script is one Lua script, called by its hash.
type script struct{ text, hash string }

func newScript(text string) script {
	text = logText + text
	sum := sha1.Sum([]byte(text))
	return script{text: text, hash: hex.EncodeToString(sum[:])}
}

var (
	applyScript   = newScript(applyText)
	historyScript = newScript(historyText)
	rewriteScript = newScript(rewriteText)
	restoreScript = newScript(restoreText)

	scripts = []script{applyScript, historyScript, rewriteScript, restoreScript, scanScript}
)

// once is a command that is never sent a second time: who does not get its reply
// cannot know what it did.
type once struct{ *redis.Cmd }

// NoRetry tells the client so.
func (once) NoRetry() bool { return true }

// run runs a script. A server that does not know it, since it was restarted or its
// scripts were flushed, has run nothing, and gets the text.
func (d *Driver) run(ctx context.Context, s script, write bool, keys []string, args ...any) *redis.Cmd {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", s.hash, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	all = append(all, args...)
	cmd := d.send(ctx, write, all)
	if err := cmd.Err(); err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT ") {
		all[0], all[1] = "eval", s.text
		cmd = d.send(ctx, write, all)
	}
	return cmd
}

func (d *Driver) send(ctx context.Context, write bool, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(3)
	if write {
		_ = d.client.Process(ctx, once{cmd}) // cmd holds the error
	} else {
		_ = d.client.Process(ctx, cmd)
	}
	return cmd
}

// answer is the number that a writing script returns.
func answer(cmd *redis.Cmd) (int, error) { return cmd.Int() }
