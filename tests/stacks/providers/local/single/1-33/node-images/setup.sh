#!/bin/sh
cat << EOF > /etc/motd
box << .NodeImageVersion >>
EOF
