CREATE TABLE meta (
	name VARCHAR NOT NULL, 
	value VARCHAR NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE stream (
	name VARCHAR NOT NULL, 
	content TEXT NOT NULL, 
	closed_before BIGINT NOT NULL, 
	reached BIGINT NOT NULL, 
	retired_before BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE batch (
	number INTEGER NOT NULL, 
	stream VARCHAR NOT NULL, 
	batch_id VARCHAR NOT NULL, 
	token VARCHAR NOT NULL, 
	closed_before BIGINT NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (stream, batch_id)
);
CREATE TABLE window_ (
	stream VARCHAR NOT NULL, 
	"index" BIGINT NOT NULL, 
	start BIGINT NOT NULL, 
	"end" BIGINT NOT NULL, 
	state VARCHAR NOT NULL, 
	PRIMARY KEY (stream, "index"), 
	CHECK ("start" < "end")
);
CREATE TABLE block (
	stream VARCHAR NOT NULL, 
	number BIGINT NOT NULL, 
	capacity_epsilon_nano BIGINT NOT NULL, 
	capacity_delta_atto BIGINT NOT NULL, 
	accountant VARCHAR NOT NULL, 
	lines TEXT NOT NULL, 
	state VARCHAR NOT NULL, 
	revision BIGINT NOT NULL, 
	PRIMARY KEY (stream, number), 
	CHECK (capacity_epsilon_nano > 0 AND capacity_delta_atto >= 0), 
	CHECK (state IN ('active', 'retired', 'erased'))
);
CREATE INDEX block_revision ON block (stream, revision);
CREATE TABLE journal (
	stream VARCHAR NOT NULL, 
	sequence BIGINT NOT NULL, 
	"key" VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	ptk_id VARCHAR NOT NULL, 
	lo BIGINT NOT NULL, 
	hi BIGINT NOT NULL, 
	epsilon_nano BIGINT NOT NULL, 
	delta_atto BIGINT NOT NULL, 
	line VARCHAR NOT NULL, 
	charge TEXT NOT NULL, 
	event TEXT NOT NULL, 
	digest VARCHAR NOT NULL, 
	nonce VARCHAR NOT NULL, 
	PRIMARY KEY (stream, sequence), 
	UNIQUE ("key", kind), 
	CHECK (sequence > 0), 
	CHECK (kind IN ('reserve', 'spend', 'release')), 
	CHECK (lo >= 0 AND lo < hi), 
	CHECK (epsilon_nano > 0 AND delta_atto >= 0), 
	CHECK (typeof(epsilon_nano) = 'integer' AND typeof(delta_atto) = 'integer' AND typeof(sequence) = 'integer' AND typeof(lo) = 'integer' AND typeof(hi) = 'integer')
);
CREATE INDEX journal_blocks ON journal (stream, lo, hi);
CREATE UNIQUE INDEX journal_one_end ON journal ("key") WHERE kind <> 'reserve';
CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_no_replace BEFORE INSERT ON journal WHEN EXISTS (SELECT 1 FROM journal WHERE (stream = NEW.stream AND sequence = NEW.sequence) OR (key = NEW.key AND (kind = NEW.kind OR (kind <> 'reserve' AND NEW.kind <> 'reserve')))) BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TABLE ptk (
	ptk_id VARCHAR NOT NULL, 
	team VARCHAR NOT NULL, 
	stream VARCHAR NOT NULL, 
	active INTEGER NOT NULL, 
	content TEXT NOT NULL, 
	PRIMARY KEY (ptk_id)
);
CREATE TABLE job (
	id VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	stream VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	due_at BIGINT NOT NULL, 
	window_index BIGINT, 
	ptk_id VARCHAR, 
	subscription_id VARCHAR, 
	reservation VARCHAR, 
	n_rows BIGINT NOT NULL, 
	partition INTEGER NOT NULL, 
	position BIGINT NOT NULL, 
	fence BIGINT NOT NULL, 
	attempt BIGINT NOT NULL, 
	lease_until BIGINT, 
	outcome VARCHAR, 
	PRIMARY KEY (id)
);
CREATE INDEX job_ptk ON job (ptk_id, kind, window_index);
CREATE INDEX job_due ON job (state, due_at);
CREATE TABLE profile (
	"key" VARCHAR NOT NULL, 
	number BIGINT NOT NULL, 
	stream VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	asked_at BIGINT NOT NULL, 
	drifted_at BIGINT, 
	tries INTEGER NOT NULL, 
	job_id VARCHAR NOT NULL, 
	content TEXT NOT NULL, 
	PRIMARY KEY ("key", number), 
	CHECK (number > 0 AND tries >= 0), 
	CHECK (state IN ('open', 'answered', 'given-up'))
);
CREATE TABLE subscription (
	id VARCHAR NOT NULL, 
	ptk_id VARCHAR NOT NULL, 
	endpoint TEXT NOT NULL, 
	team VARCHAR NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE dead_letter (
	subscription_id VARCHAR NOT NULL, 
	number BIGINT NOT NULL, 
	code VARCHAR NOT NULL, 
	at BIGINT NOT NULL, 
	PRIMARY KEY (subscription_id, number)
);
CREATE TABLE notice (
	number INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	team VARCHAR NOT NULL, 
	subject VARCHAR NOT NULL, 
	code VARCHAR NOT NULL, 
	PRIMARY KEY (number)
);
CREATE TABLE team (
	name VARCHAR NOT NULL, 
	at BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE grant_ (
	team VARCHAR NOT NULL, 
	stream VARCHAR NOT NULL, 
	role VARCHAR NOT NULL, 
	PRIMARY KEY (team, stream, role)
);
CREATE TABLE audit (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at BIGINT NOT NULL, 
	request_id VARCHAR NOT NULL, 
	team VARCHAR NOT NULL, 
	token_id VARCHAR NOT NULL, 
	action VARCHAR NOT NULL, 
	subject VARCHAR NOT NULL, 
	outcome VARCHAR NOT NULL
);
CREATE INDEX audit_request ON audit (request_id);
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
CREATE TRIGGER audit_no_replace BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE number = NEW.number) BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;
CREATE TABLE answer (
	team VARCHAR NOT NULL, 
	"key" VARCHAR NOT NULL, 
	asked VARCHAR NOT NULL, 
	at BIGINT NOT NULL, 
	status INTEGER NOT NULL, 
	content TEXT NOT NULL, 
	PRIMARY KEY (team, "key")
);
CREATE INDEX answer_age ON answer (at);
CREATE TABLE version (
	ptk_id VARCHAR NOT NULL, 
	number BIGINT NOT NULL, 
	job_id VARCHAR NOT NULL, 
	draft_id VARCHAR NOT NULL, 
	window_index BIGINT NOT NULL, 
	elected_at BIGINT NOT NULL, 
	manifest TEXT NOT NULL, 
	PRIMARY KEY (ptk_id, number), 
	CHECK (number > 0), 
	FOREIGN KEY(job_id) REFERENCES job (id), 
	UNIQUE (job_id), 
	UNIQUE (draft_id)
);
CREATE TABLE token (
	id VARCHAR NOT NULL, 
	team VARCHAR NOT NULL, 
	label VARCHAR NOT NULL, 
	scopes VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	revoked_at BIGINT, 
	PRIMARY KEY (id), 
	FOREIGN KEY(team) REFERENCES team (name), 
	UNIQUE (digest)
);
CREATE TABLE evaluation (
	ptk_id VARCHAR NOT NULL, 
	number BIGINT NOT NULL, 
	job_id VARCHAR NOT NULL, 
	window_index BIGINT NOT NULL, 
	epsilon VARCHAR NOT NULL, 
	lost BIGINT NOT NULL, 
	kept BIGINT NOT NULL, 
	at BIGINT NOT NULL, 
	PRIMARY KEY (ptk_id, number), 
	FOREIGN KEY(ptk_id, number) REFERENCES version (ptk_id, number), 
	UNIQUE (job_id)
);
