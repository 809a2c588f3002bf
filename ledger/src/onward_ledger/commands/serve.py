"""`onward-ledger serve`: be the service."""

from __future__ import annotations

import ipaddress
import logging
from pathlib import Path
from typing import Annotated

import typer

from onward_ledger.commands.common import DEFAULT_PORT, DEFAULT_TOKEN_FILE, told

Store = Annotated[
    str,
    typer.Option(
        envvar="ONWARD_LEDGER_STORE", help="Where records are kept: postgresql://… or sqlite:///path (one service)."
    ),
]
Objects = Annotated[
    str, typer.Option(envvar="ONWARD_LEDGER_OBJECTS", help="Where objects are kept: a folder, s3://bucket/prefix, …")
]
Port = Annotated[int, typer.Option(envvar="ONWARD_LEDGER_PORT", min=0, max=65535, help="0 takes a free one.")]
Host = Annotated[
    str,
    typer.Option(
        envvar="ONWARD_LEDGER_HOST", help="The address to listen on. Anything but loopback lets other machines in."
    ),
]
NewTokenFile = Annotated[
    Path, typer.Option(envvar="ONWARD_LEDGER_TOKEN_FILE", help="The service token; a missing file gets a new token.")
]
ReadyFile = Annotated[
    Path | None,
    typer.Option(
        envvar="ONWARD_LEDGER_READY_FILE",
        help="Gets {url, pid, instance, version, started_at} as JSON once the service listens.",
    ),
]
Schema = Annotated[str, typer.Option(envvar="ONWARD_LEDGER_SCHEMA", help="The Postgres schema to use.")]
Config = Annotated[
    Path | None, typer.Option(envvar="ONWARD_LEDGER_CONFIG", help="A TOML file with kinds of effects; see README.")
]
Tokens = Annotated[
    Path | None, typer.Option(envvar="ONWARD_LEDGER_TOKENS", help="A TOML file with more tokens, made by `token new`.")
]
TlsCert = Annotated[
    Path | None, typer.Option(envvar="ONWARD_LEDGER_TLS_CERT", help="The service's certificate (PEM), for https.")
]
TlsKey = Annotated[
    Path | None, typer.Option(envvar="ONWARD_LEDGER_TLS_KEY", help="Its private key (PEM, without a password).")
]
TlsClientCa = Annotated[
    Path | None,
    typer.Option(
        envvar="ONWARD_LEDGER_TLS_CLIENT_CA", help="Let in clients with a certificate of this authority only."
    ),
]
Witness = Annotated[
    Path | None,
    typer.Option(
        envvar="ONWARD_LEDGER_WITNESS",
        help="A folder outside the database's server: tells a restored database. Else beside the token file.",
    ),
]


def serve(
    store: Store = "sqlite:///onward-ledger.db",
    objects: Objects = "onward-objects",
    port: Port = DEFAULT_PORT,
    host: Host = "127.0.0.1",
    token_file: NewTokenFile = DEFAULT_TOKEN_FILE,
    ready_file: ReadyFile = None,
    schema: Schema = "onward_ledger",
    config: Config = None,
    tokens: Tokens = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    witness: Witness = None,
) -> None:
    """Start the service; it runs until SIGTERM or Ctrl-C, and finishes requests in flight."""
    # The server is slow to import, and only needed here.
    from onward_ledger.masking import keep_secret, mask_logs
    from onward_ledger.serve import ServeOptions, read_token, serve
    from onward_ledger.tls import Certificate

    if (tls_cert is None) != (tls_key is None) or (tls_client_ca is not None and tls_cert is None):
        raise typer.BadParameter("TLS needs --tls-cert and --tls-key; --tls-client-ca needs both.")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    mask_logs()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if not _is_loopback(host) and tls_cert is None:
        logging.warning(
            "Listening on %s: whoever reaches it and has the token can act. Traffic is not encrypted.", host
        )
    with told():
        token = read_token(token_file)
        keep_secret(token)
        options = ServeOptions(
            store=store,
            objects=objects,
            token=token,
            host=host,
            port=port,
            ready_file=ready_file,
            schema=schema,
            config=config,
            tokens=tokens,
            certificate=Certificate(file=tls_cert, key=tls_key) if tls_cert and tls_key else None,
            client_ca=tls_client_ca,
            witness=witness or token_file.with_suffix(".witness"),
        )
        serve(options)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
