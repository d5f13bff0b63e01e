/* Copyright (c) 2026, Railyard contributors
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Preloaded into a program that speaks netlink: its messages go to the UNIX socket $NETLINK_STANDIN instead.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char ours[1024];

static int is_ours(int fd)
{
	return fd >= 0 && fd < (int)sizeof(ours) && ours[fd];
}

int socket(int domain, int type, int protocol)
{
	int (*real)(int, int, int) = dlsym(RTLD_NEXT, "socket");
	struct sockaddr_un there = {.sun_family = AF_UNIX};
	int fd;

	if (domain != AF_NETLINK)
		return real(domain, type, protocol);
	fd = real(AF_UNIX, SOCK_SEQPACKET, 0);
	strncpy(there.sun_path, getenv("NETLINK_STANDIN"), sizeof(there.sun_path) - 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&there, sizeof(there)))
		return -1;
	ours[fd] = 1;
	return fd;
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "bind");

	return is_ours(fd) ? 0 : real(fd, address, length);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	int (*real)(int, int, int, const void *, socklen_t) = dlsym(RTLD_NEXT, "setsockopt");

	return is_ours(fd) ? 0 : real(fd, level, name, value, length);
}

int getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
	int (*real)(int, struct sockaddr *, socklen_t *) = dlsym(RTLD_NEXT, "getsockname");
	struct sockaddr_nl us = {.nl_family = AF_NETLINK, .nl_pid = getpid()};

	if (!is_ours(fd))
		return real(fd, address, length);
	memcpy(address, &us, sizeof(us));
	*length = sizeof(us);
	return 0;
}

ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length)
{
	ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "sendto");

	return is_ours(fd) ? real(fd, data, size, flags, NULL, 0) : real(fd, data, size, flags, to, length);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t (*real)(int, struct msghdr *, int) = dlsym(RTLD_NEXT, "recvmsg");
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	void *name = message->msg_name;
	ssize_t size;

	if (!is_ours(fd))
		return real(fd, message, flags);
	message->msg_name = NULL;
	message->msg_namelen = 0;
	size = real(fd, message, flags);
	message->msg_name = name;
	if (name)
		memcpy(name, &kernel, sizeof(kernel));
	message->msg_namelen = sizeof(kernel);
	message->msg_flags &= ~MSG_EOR;
	return size;
}
