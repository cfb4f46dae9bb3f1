package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// keysLock is the key of the advisory lock for changes of the access keys. A lock of their row
// would not work, because the row may not exist yet.
const keysLock = 0x6c6d6b657973

// ReadKeys returns the text of the access keys in the database at a URL. The text is nil if the
// database has no keys.
func ReadKeys(ctx context.Context, url string) (text []byte, err error) {
	err = withKeys(ctx, url, func(conn *pgx.Conn) error {
		text, err = readKeys(ctx, conn)
		return err
	})
	return text, err
}

// UpdateKeys calls the function change with the text of a database's access keys, and stores the
// result, in one transaction. The text is nil if the database has no keys. Concurrent calls wait
// for each other.
func UpdateKeys(ctx context.Context, url string, change func(text []byte) ([]byte, error)) error {
	return withKeys(ctx, url, func(conn *pgx.Conn) error {
		var mine error // the error of change, which UpdateKeys returns unwrapped
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)",
				int64(keysLock)); err != nil {
				return err
			}
			text, err := readKeys(ctx, tx)
			if err != nil {
				return err
			}
			if text, mine = change(text); mine != nil {
				return mine
			}
			_, err = tx.Exec(ctx, `insert into keys (text) values ($1)
				on conflict (one) do update set text = excluded.text`, text)
			return err
		})
		if mine != nil {
			return mine
		}
		return err
	})
}

// FollowKeys reads the access keys of a database until the context ends, and waits for the duration
// every before each reading. It calls the function `tell` with each text that differs from the
// previous text. It compares the first reading with the parameter text. After an error of tell, it
// calls tell again at the next reading. While the database cannot be reached, FollowKeys reports
// nothing.
func FollowKeys(
	ctx context.Context, url string, every time.Duration, text []byte,
	tell func(text []byte) error,
) {
	for ctx.Err() == nil {
		_ = withKeys(ctx, url, func(conn *pgx.Conn) error {
			for sleep(ctx, every) {
				looking, cancel := context.WithTimeout(ctx, statementTime)
				now, err := readKeys(looking, conn)
				cancel()
				if err != nil {
					return err
				}
				changed := !bytes.Equal(now, text) || (now == nil) != (text == nil)
				if changed && tell(now) == nil {
					text = now
				}
			}
			return nil
		})
		sleep(ctx, every)
	}
}

func withKeys(ctx context.Context, url string, do func(conn *pgx.Conn) error) error {
	config, err := parse(url)
	if err != nil {
		return err
	}
	connecting, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	conn, err := pgx.ConnectConfig(connecting, config.ConnConfig)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	have, err := version(ctx, conn)
	if err != nil {
		return err
	}
	if have != schemaVersion {
		return &SchemaError{config.ConnConfig.Database, have, schemaVersion}
	}
	return do(conn)
}

func readKeys(ctx context.Context, q queryer) (text []byte, err error) {
	err = q.QueryRow(ctx, "select text from keys").Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: reading the keys: %w", err)
	}
	return text, nil
}
