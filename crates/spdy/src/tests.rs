//! Sessions over pipes in memory, and hostile bytes.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::task::JoinHandle;

use super::*;

const LONG: Duration = Duration::from_secs(3600);

struct Side {
    streams: Streams,
    opener: Opener,
    driver: JoinHandle<SessionEnd>,
}

fn side(transport: DuplexStream, role: Role, idle: Duration) -> Side {
    let (driver, streams, opener) = session(transport, role, Limits::default(), idle);
    Side { streams, opener, driver: tokio::spawn(driver) }
}

fn sides() -> (Side, Side) {
    let (near, far) = duplex(4096);
    (side(near, Role::Client, LONG), side(far, Role::Server, LONG))
}

async fn open(client: &Side, server: &mut Side, name: &str) -> (Stream, Stream) {
    let wanted = client.opener.open(Headers::new().with("streamType", name));
    let taken = async {
        let stream = server.streams.next().await.expect("a stream");
        assert_eq!(stream.headers.get("streamtype"), Some(name));
        stream.accept().await.expect("taken");
        stream
    };
    let (ours, theirs) = tokio::join!(wanted, taken);
    (ours.expect("taken"), theirs)
}

async fn everything(reader: &mut StreamReader) -> (Vec<u8>, Received) {
    let mut all = Vec::new();
    loop {
        match reader.next().await {
            Received::Data(bytes) => all.extend_from_slice(&bytes),
            end @ (Received::Finished | Received::Lost) => return (all, end),
        }
    }
}

#[tokio::test]
async fn streams_carry_bytes_both_ways_and_end_half_by_half() {
    let (client, mut server) = sides();
    let (mut ours, mut theirs) = open(&client, &mut server, "data").await;
    let large: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
    let sent = Bytes::from(large.clone());
    let upload = async {
        ours.writer.send(sent).await.expect("read");
        ours.writer.finish().await.expect("read");
    };
    let ((), (received, end)) = tokio::join!(upload, everything(&mut theirs.reader));
    assert!(received == large && end == Received::Finished);
    theirs.writer.send(Bytes::from_static(b"answer")).await.expect("read");
    theirs.writer.finish().await.expect("read");
    assert_eq!(everything(&mut ours.reader).await, (b"answer".to_vec(), Received::Finished));
    assert_eq!(ours.writer.send(Bytes::new()).await, Err(StreamGone), "its half is over");
}

#[tokio::test]
async fn a_dropped_stream_is_torn_down_and_the_others_go_on() {
    let (client, mut server) = sides();
    let (first, mut lost) = open(&client, &mut server, "first").await;
    let (mut second, mut kept) = open(&client, &mut server, "second").await;
    drop(first);
    assert_eq!(lost.reader.next().await, Received::Lost);
    assert_eq!(lost.writer.send(Bytes::from_static(b"x")).await, Err(StreamGone));
    second.writer.send(Bytes::from_static(b"still here")).await.expect("read");
    assert_eq!(kept.reader.next().await, Received::Data(Bytes::from_static(b"still here")));
}

#[tokio::test]
async fn a_refused_stream_is_not_opened() {
    let (client, mut server) = sides();
    let wanted = client.opener.open(Headers::new().with("streamType", "nonsense"));
    let refused = async { drop(server.streams.next().await.expect("a stream")) };
    assert!(tokio::join!(wanted, refused).0.is_none());
}

#[tokio::test]
async fn everything_that_was_said_arrives_before_the_connection_ends() {
    let (client, mut server) = sides();
    let (mut ours, mut theirs) = open(&client, &mut server, "stdout").await;
    let speaker = tokio::spawn(async move {
        for _ in 0..100 {
            theirs.writer.send(Bytes::from(vec![1; 10_000])).await.expect("read");
        }
        theirs.writer.finish().await.expect("read");
        drop((theirs, server.streams, server.opener));
        server.driver.await
    });
    let (received, end) = everything(&mut ours.reader).await;
    assert_eq!((received.len(), end), (1_000_000, Received::Finished));
    drop((ours, client.streams, client.opener));
    assert!(matches!(client.driver.await, Ok(SessionEnd::Done | SessionEnd::PeerClosed)));
    assert!(matches!(speaker.await.expect("no panic"), Ok(SessionEnd::Done)));
}

#[tokio::test]
async fn a_peer_that_goes_away_ends_every_stream() {
    let (client, mut server) = sides();
    let (ours, mut theirs) = open(&client, &mut server, "stdin").await;
    client.driver.abort();
    assert_eq!(theirs.reader.next().await, Received::Lost);
    assert!(server.streams.next().await.is_none());
    assert!(matches!(server.driver.await, Ok(SessionEnd::PeerClosed)));
    assert_eq!(theirs.writer.send(Bytes::new()).await, Err(StreamGone));
    drop(ours);
}

#[tokio::test]
async fn a_session_on_which_nothing_moves_ends_and_signs_of_life_are_no_movement() {
    let (mut raw, far) = duplex(4096);
    let server = side(far, Role::Server, Duration::from_millis(50));
    raw.write_all(b"\x80\x03\0\x06\0\0\0\x04\0\0\0\x01").await.expect("read");
    assert!(matches!(server.driver.await, Ok(SessionEnd::Idle)));
    let mut answer = Vec::new();
    raw.read_to_end(&mut answer).await.expect("closed");
    assert_eq!(answer, b"\x80\x03\0\x06\0\0\0\x04\0\0\0\x01");
}

#[tokio::test]
async fn a_peer_that_asks_and_does_not_read_is_not_listened_to() {
    let (mut raw, far) = duplex(4096);
    let _server = side(far, Role::Server, LONG);
    let ping = b"\x80\x03\0\x06\0\0\0\x04\0\0\0\x01".repeat(4096);
    // Answers pile up to a limit; then what is asked stays where it is.
    let flood = async {
        loop {
            raw.write_all(&ping).await.expect("open");
        }
    };
    assert!(tokio::time::timeout(Duration::from_millis(300), flood).await.is_err());
}

#[tokio::test]
async fn a_stream_that_is_not_read_holds_the_peer_and_loses_nothing() {
    let (client, mut server) = sides();
    let (mut ours, mut theirs) = open(&client, &mut server, "data").await;
    let upload = tokio::spawn(async move {
        for _ in 0..1000 {
            ours.writer.send(Bytes::from(vec![1; 1000])).await.expect("read");
        }
        ours.writer.finish().await.expect("read");
        ours
    });
    // A reader that gives up waiting again and again.
    let mut received = 0;
    loop {
        tokio::select! {
            biased;
            () = tokio::task::yield_now() => {}
            piece = theirs.reader.next() => match piece {
                Received::Data(bytes) => received += bytes.len(),
                Received::Finished => break,
                Received::Lost => panic!("lost"),
            }
        }
    }
    assert_eq!(received, 1_000_000);
    upload.await.expect("no panic");
}

#[tokio::test]
async fn broken_bytes_end_the_session_and_nothing_else() {
    for bytes in [
        &b"\x80\x02\0\x01\0\0\0\0"[..],
        b"\x80\x03\0\x01\0\xff\xff\xff",
        b"\x80\x03\0\x01\0\0\0\x0bxxxxxxxxxxx",
    ] {
        let (mut raw, far) = duplex(4096);
        let server = side(far, Role::Server, LONG);
        raw.write_all(bytes).await.expect("read");
        assert!(matches!(server.driver.await, Ok(SessionEnd::Protocol(_))), "{bytes:?}");
    }
}

#[tokio::test]
async fn a_tunnel_carries_a_session() {
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::protocol::Role as WebSocketRole;
    let (near, far) = duplex(4096);
    let (client_end, client_pipe) = duplex(4096);
    let (server_end, server_pipe) = duplex(4096);
    for (socket, role, pipe) in
        [(near, WebSocketRole::Client, client_pipe), (far, WebSocketRole::Server, server_pipe)]
    {
        tokio::spawn(async move {
            tunnel(WebSocketStream::from_raw_socket(socket, role, None).await, pipe).await
        });
    }
    let client = side(client_end, Role::Client, LONG);
    let mut server = side(server_end, Role::Server, LONG);
    let (mut ours, mut theirs) = open(&client, &mut server, "data").await;
    ours.writer.send(Bytes::from_static(b"through")).await.expect("read");
    assert_eq!(theirs.reader.next().await, Received::Data(Bytes::from_static(b"through")));
    client.driver.abort();
    assert_eq!(theirs.reader.next().await, Received::Lost);
}

proptest! {
    #[test]
    fn no_bytes_of_a_peer_make_it_panic_and_what_it_keeps_is_bounded(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 0..20),
        heads in prop::collection::vec((0_u16..12, any::<u8>(), 0_u8..64), 0..20),
    ) {
        let mut connection = Connection::new(Role::Server, Limits { streams: 4, ..Limits::default() });
        for (piece, (kind, flags, length)) in pieces.iter().zip(heads) {
            let mut bytes = vec![0x80, 3];
            bytes.extend_from_slice(&kind.to_be_bytes());
            bytes.extend_from_slice(&[flags, 0, 0, length]);
            bytes.extend_from_slice(piece);
            if connection.receive(&bytes).is_err() {
                break;
            }
            while connection.next_event().is_some() {}
            prop_assert!(connection.open_streams() <= 4);
        }
    }

    #[test]
    fn what_one_side_says_the_other_understands_however_it_is_cut(
        payload in prop::collection::vec(any::<u8>(), 0..5000),
        cut in 1_usize..700,
    ) {
        let mut client = Connection::new(Role::Client, Limits::default());
        let mut server = Connection::new(Role::Server, Limits::default());
        let stream = client.open(Headers::new().with("streamType", "data"));
        client.send(stream, Bytes::from(payload.clone()));
        client.finish(stream);
        for piece in client.output().split().chunks(cut) {
            server.receive(piece).expect("understood");
        }
        let mut received = Vec::new();
        let mut finished = false;
        while let Some(event) = server.next_event() {
            match event {
                Event::Data(_, bytes) => received.extend_from_slice(&bytes),
                Event::Finished(_) => finished = true,
                Event::Opened { .. } | Event::Accepted(_) | Event::Reset(_) => {}
            }
        }
        prop_assert!(finished && received == payload);
    }
}
